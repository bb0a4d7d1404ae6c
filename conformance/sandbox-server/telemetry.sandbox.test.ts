import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readSeries } from '../support/metrics.ts'
import { createUser, openSandboxServer, textModel } from '../support/sandbox-server/user.ts'

/** Metrics, traces and audit of a sandbox server, and who may read them. */

const privateMessage = 'a message that no one else may see'

test('a start appears in metrics and audit, for authorized callers', {
  timeout: 120_000,
}, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-sandbox-telemetry-'))
  const audit = join(directory, 'audit.log')
  try {
    await using place = await openSandboxServer({
      env: {
        SLIPWAY_AUDIT_LOG: audit,
        SLIPWAY_EXPOSE: 'relay',
        // No receiver listens: traces are lost, and nothing else is.
        OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
      },
    })
    const { server } = place
    const user = await createUser(server)
    await user.setModel(textModel)
    const initial_message = { role: 'user', content: [{ type: 'text', text: privateMessage }] }
    const conversation = await user.createConversation({ initial_message })
    await user.waitForMessage(conversation.id, 'Answer 0.')
    const sandboxId = conversation.sandbox_id
    const sandbox = await user.waitForSandbox(sandboxId, 'RUNNING')
    const agent = sandbox.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')
    const key = { 'x-session-api-key': String(sandbox.session_api_key) }
    expect((await fetch(`${agent?.url}/api/conversations/count`, { headers: key })).status).toBe(200)

    const command = await fetch(`${agent?.url}/api/bash/execute_bash_command`, {
      method: 'POST',
      headers: { ...key, 'content-type': 'application/json' },
      body: JSON.stringify({ command: 'true' }),
    })
    expect(command.status).toBe(200)

    const scrape = async (bearer: string | undefined) =>
      await fetch(
        `${server.url}/metrics`,
        bearer === undefined ? {} : { headers: { authorization: `Bearer ${bearer}` } },
      )
    expect((await scrape(undefined)).status).toBe(401)
    expect((await scrape(user.key)).status).toBe(403)
    const metrics = await (await scrape(server.key)).text()
    const value = (series: string) => readSeries(metrics, series)
    expect(value('slipway_sandboxes{status="RUNNING"}')).toBe(1)
    expect(value('slipway_pool_sandboxes{status="RUNNING"}')).toBe(0)
    expect(value('slipway_sandbox_steps_total{step="start",outcome="ok"}')).toBe(1)
    expect(value('slipway_conversation_start_duration_seconds_count{outcome="ready"}')).toBe(1)
    expect(value('slipway_conversation_starts')).toBe(0)
    expect(value('slipway_relayed_total{kind="request"}')).toBeGreaterThan(0)
    expect(value('slipway_events_appended_total')).toBeGreaterThan(0)

    const text = await readFile(audit, 'utf8')
    const lines: Record<string, unknown>[] = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const starts = lines.filter(({ route }) => String(route).startsWith('/api/v1/app-conversations'))
    expect(starts).toMatchObject([{ method: 'POST', status: 200, caller: `user:${user.id}` }])
    expect(lines.some(({ caller }) => caller === 'user:admin')).toBe(true)
    const relayed = {
      method: 'POST',
      route: '/sandboxes/{sandbox_id}/{name}/*',
      sandbox: sandboxId,
      status: 200,
    }
    expect(lines).toContainEqual(expect.objectContaining(relayed))
    // Reports of sandboxes about themselves have no audit entry.
    expect(lines.filter(({ route }) => String(route).startsWith('/api/v1/webhooks'))).toEqual([])
    const secrets = [privateMessage, user.key, server.key, String(sandbox.session_api_key)]
    for (const [where, seen] of Object.entries({ metrics, audit: text }))
      for (const secret of secrets) expect(seen, where).not.toContain(secret)
    for (const id of [sandboxId, user.id, conversation.id]) expect(metrics).not.toContain(id)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
})
