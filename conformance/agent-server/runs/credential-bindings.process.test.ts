import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scriptedCommand } from '../../../packages/agent/src/acp/testing/scripted-command.ts'
import { eventLabel } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'

/** Binds the credential of a conversation; returns the status of the answer. */
async function bind(server: OwnAgentServer, id: string, url: string, headers: object = {}): Promise<number> {
  const response = await server.api.fetch(`/api/conversations/${id}/credential-bindings/CODEX_AUTH_JSON`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ url, headers }),
  })
  return response.status
}

const credential = (token: string) => JSON.stringify({ tokens: { refresh_token: token } })

const message = (text: string) => ({ content: [{ type: 'text', text }], run: true })

/** Keeps one credential, with a version for each value that it had. */
async function openSource(value: string) {
  const kept = { value, version: 1 }
  const authorizations = new Set<string | undefined>()
  const server = createServer(async (request, response) => {
    authorizations.add(request.headers.authorization)
    if (request.method === 'PUT') {
      const body = JSON.parse(Buffer.concat(await request.toArray()).toString())
      if (body.expected_version !== `v${kept.version}`) return void response.writeHead(409).end('{}')
      kept.value = body.value
      kept.version++
    }
    response.end(JSON.stringify({ value: kept.value, version: `v${kept.version}` }))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo // it listens on a port
  return {
    kept,
    authorizations,
    url: `http://127.0.0.1:${port}/credential`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

test('an external agent signs in with a bound credential, and what it renews goes to the source', async () => {
  await using server = await OwnAgentServer.open()
  await using source = await openSource(credential('canary-refresh-1'))
  const turn = (token: string) => [{ renews: 'CODEX_HOME', text: credential(token) }, { text: 'Done.' }]
  const acp_command = scriptedCommand({ turns: [turn('second-refresh-token')] })
  const agent = { kind: 'ACPAgent', acp_server: 'codex', acp_command, tools: [] }
  const { id } = await server.driver.create(agent)
  const sign = (number: number) =>
    bind(server, id, source.url, { Authorization: `Bearer canary-header-${number}` })
  expect(await sign(1)).toBe(204)
  expect((await server.driver.post(id, 'events', message('Begin.'))).status).toBe(200)
  const isFinished = (event: Parameters<typeof eventLabel>[0]) =>
    eventLabel(event) === 'execution_status=finished'
  const events = await server.driver.waitForEvent(id, isFinished)
  const answer = events.find((event) => event.kind === 'MessageEvent' && event.source === 'agent')
  expect(JSON.stringify(answer)).toContain('<secret-hidden>')
  await expect.poll(() => source.kept).toEqual({ value: credential('second-refresh-token'), version: 2 })

  // After a pause nothing runs until the source is bound again.
  await server.api.fetch('/api/conversations/prepare-for-sandbox-pause', { method: 'POST' })
  expect(await server.driver.post(id, 'events', message('Again.'))).toMatchObject({
    status: 409,
    body: { detail: 'credential_binding_activation_required', retryable: true },
  })
  expect(await sign(2)).toBe(204)
  expect((await server.driver.post(id, 'events', message('Again.'))).status).toBe(200)
  await server.driver.waitUntilIdle(id)
  expect([...source.authorizations]).toEqual(['Bearer canary-header-1', 'Bearer canary-header-2'])
  // With the program running the source cannot be another one.
  expect(await bind(server, id, `${source.url}/other`)).toBe(409)
  await server.stop()
  for (const entry of await readdir(server.data, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name)
    if (entry.isFile()) expect((await readFile(file)).includes('canary'), file).toBe(false)
  }
  expect(server.output()).not.toContain('canary')
})

test('without its source an external agent does not start, and the conversation says why', async () => {
  await using server = await OwnAgentServer.open()
  const source = await openSource(credential('canary-refresh-1'))
  const agent = { kind: 'ACPAgent', acp_server: 'codex', acp_command: scriptedCommand({}), tools: [] }
  const { id } = await server.driver.create(agent)
  expect(await bind(server, id, source.url)).toBe(204)
  await source[Symbol.asyncDispose]()
  expect((await server.driver.post(id, 'events', message('Begin.'))).status).toBe(200)
  const events = await server.driver.waitForEvent(id, ({ kind }) => kind === 'ConversationErrorEvent')
  expect(events.find(({ kind }) => kind === 'ConversationErrorEvent')).toMatchObject({
    code: 'ACPAuthRequired',
    detail: expect.stringContaining('Credential binding source is unavailable'),
  })
})
