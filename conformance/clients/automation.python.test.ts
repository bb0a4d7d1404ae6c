import { execFileSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { AutomationService } from '../support/automation-service.ts'
import { MockProvider } from '../support/mock-provider.ts'
import { findPython } from '../support/python.ts'
import { createUser, openSandboxServer, type User } from '../support/sandbox-server/user.ts'

const python = findPython('automation')
if (python === undefined) console.warn('SKIPPED: .ci/python automation has not installed the scheduler')

/** What an automation is: a program in a separate sandbox, with a key of its user. */
const program = `set -e
call() {
  curl -fsS -H "Authorization: Bearer $OPENHANDS_API_KEY" -H 'Content-Type: application/json' "$@"
}
status=FAILED
trap 'call -d "{\\"status\\": \\"$status\\", \\"conversation_id\\": \\"$id\\"}" "$AUTOMATION_CALLBACK_URL"' EXIT
api=$OPENHANDS_CLOUD_API_URL/api/v1
start='{"trigger": "automation", "title": "Morning report", "initial_message": {"content": [{"type": "text", "text": "Write the report"}]}'
task=$(call -d "$start, \\"sandbox_id\\": \\"$SANDBOX_ID\\"}" "$api/app-conversations" | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')
for i in $(seq 60); do
  id=$(call "$api/app-conversations/start-tasks?ids=$task" | sed -n 's/.*"app_conversation_id":"\\([^"]*\\)".*/\\1/p')
  [ -n "$id" ] && call "$api/app-conversations?ids=$id" | grep -q '"execution_status":"finished"' && status=COMPLETED && exit 0
  sleep 1
done
exit 1
`

async function packProgram(): Promise<Buffer<ArrayBuffer>> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-program-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  writeFileSync(join(directory, 'main.sh'), program)
  chmodSync(join(directory, 'main.sh'), 0o755)
  execFileSync('tar', ['czf', join(directory, 'a.tar.gz'), '-C', directory, 'main.sh'])
  return Buffer.from(await readFile(join(directory, 'a.tar.gz')))
}

interface Run {
  readonly status: string
  readonly conversation_id: string | null
  readonly error_detail: string | null
}

test.skipIf(python === undefined)(
  'openhands-automation 1.26.0 starts a conversation by the clock, in a sandbox of its user',
  { timeout: 300_000 },
  async () => {
    await using provider = await MockProvider.open()
    provider.replyWithoutTools = { text: 'A title' }
    provider.replies = [{ text: 'The report is written.' }]
    await using service = await AutomationService.reserve()
    await using place = await openSandboxServer({
      env: { SLIPWAY_SANDBOX_NETWORK: 'shared', SLIPWAY_AUTOMATION_URL: service.url },
    })
    const { server } = place
    const user: User = await createUser(server)
    await user.setModel({ model: 'openai/gpt-4o', api_key: 'sk-of-the-user', base_url: `${provider.url}/v1` })
    // Web clients hide their page of automations without it.
    expect((await fetch(`${server.url}/api/automation/health`)).status).toBe(502)
    await service.start(String(python), { url: server.url, serviceKey: server.key })
    const health = async () => (await fetch(`${server.url}/api/automation/health`)).status
    await expect
      .poll(health, { timeout: 120_000, interval: 500 })
      .toBe(200)
      .catch((cause: unknown) => {
        throw new Error(service.output(), { cause })
      })
    const api = `${server.url}/api/automation/v1`
    const headers = { authorization: `Bearer ${user.key}` }
    const post = async (path: string, body: string | Buffer<ArrayBuffer>) => {
      const contentType = typeof body === 'string' ? 'application/json' : 'application/gzip'
      const init = { method: 'POST', headers: { ...headers, 'content-type': contentType }, body }
      const response = await fetch(api + path, init)
      expect([path, response.status, response.ok ? '' : await response.text()]).toEqual([path, 201, ''])
      return await response.json()
    }
    expect((await fetch(api, { headers: { authorization: 'Bearer wrong' } })).status).toBe(401)
    const upload = await post('/uploads?name=report', await packProgram())
    const automation = await post(
      '',
      JSON.stringify({
        name: 'Report',
        trigger: { type: 'cron', schedule: '* * * * *' },
        tarball_path: upload.tarball_path,
        entrypoint: 'bash main.sh',
      }),
    )
    const firstRun = async (): Promise<Run | undefined> =>
      (await (await fetch(`${api}/${automation.id}/runs`, { headers })).json()).runs?.at(-1)
    const isEnded = async () => /COMPLETED|FAILED|SKIPPED/.test(String((await firstRun())?.status))
    await expect.poll(isEnded, { timeout: 200_000, interval: 1_000 }).toBe(true)
    const run = await firstRun()
    expect([run?.status, run?.error_detail]).toEqual(['COMPLETED', null])

    expect(await user.getConversation(String(run?.conversation_id))).toMatchObject({
      title: 'Morning report',
      trigger: 'automation',
    })
    const events = JSON.stringify(
      await user.get(`/api/v1/conversation/${run?.conversation_id}/events/search?limit=100`),
    )
    expect(events).toContain('The report is written.')
    // The service deletes the sandbox of a run; its history stays.
    expect(service.output()).not.toContain(server.key)
    expect(server.output()).not.toContain('sk-of-the-user')
  },
)
