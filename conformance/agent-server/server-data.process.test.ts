import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@slipway/client'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { startAgentServer } from '../support/agent-server.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 })
const patience = { timeout: 60_000 }
const secrets = {
  SLIPWAY_SESSION_API_KEY: 'session-key-of-this-test',
  SLIPWAY_SECRET_KEY: 'secret-key-of-this-test-1234',
  LLM_API_KEY: 'model-key-of-this-test',
  SOME_PROVIDER_TOKEN: 'provider-token-of-this-test',
}

let workspace: string
let server: Awaited<ReturnType<typeof startAgentServer>>
let client: Client

beforeEach(async () => {
  workspace = await realpath(await mkdtemp(join(tmpdir(), 'slipway-server-data-')))
  await writeFile(join(workspace, 'mine.txt'), 'mine')
  // The worst place for it: below the working directory, under a name that nothing gives away.
  server = await startAgentServer(join(workspace, 'state'), { HOME: workspace, ...secrets })
  client = new Client({ url: server.url, sessionApiKey: secrets.SLIPWAY_SESSION_API_KEY })
})

afterEach(async () => {
  await server.stop()
  await rm(workspace, { recursive: true, force: true })
})

type Call = { readonly name: string; readonly arguments: object }

/** Runs an agent that makes these calls, one after another. */
async function play(calls: readonly Call[], members: object = {}): Promise<string> {
  const script = [...calls.map((call) => ({ tool_calls: [call] })), { text: 'Done.' }]
  const { id } = await client.call('createConversation', {
    body: {
      agent: {
        llm: { model: 'scripted/m', script },
        tools: ['terminal', 'file_editor', 'grep', 'glob'].map((name) => ({ name })),
        mcp_config: {},
        system_prompt_kwargs: {},
      },
      workspace: { working_dir: workspace },
      autotitle: false,
      initial_message: { content: [{ type: 'text', text: 'Go.' }], run: true },
      ...members,
    },
  })
  return id
}

async function status(id: string): Promise<string> {
  return (await client.call('getConversation', { params: { conversation_id: id } })).execution_status
}

async function observations(id: string): Promise<string[]> {
  const { items } = await client.call('searchEvents', {
    params: { conversation_id: id },
    query: { kind: 'ObservationEvent' },
  })
  return items.map((event) => JSON.stringify(event))
}

test('file tools refuse the data directory of the server, also below the workspace', async () => {
  const edit = (path: string, more: object = { command: 'view' }) => ({
    name: 'file_editor',
    arguments: { path, ...more },
  })
  const id = await play([
    edit(join(workspace, 'state')),
    edit(join(workspace, 'state/secret.key'), { command: 'create', file_text: 'x' }),
    edit(join(workspace, 'state/../state/events.db')),
    { name: 'glob', arguments: { pattern: '**/*' } },
    { name: 'grep', arguments: { pattern: '.', include: 'state/**' } },
    edit(join(workspace, 'mine.txt')),
  ])
  await expect.poll(() => status(id), patience).toBe('finished')
  const [folder, key, dots, glob, grep, mine] = await observations(id)
  for (const refused of [folder, key, dots]) expect(refused).toContain('holds keys of Slipway')
  expect(glob).toContain('mine.txt')
  expect(glob).not.toContain('state/')
  expect(grep).toContain('"matches":[]')
  expect(mine).toContain('mine')
})

test.each([
  ['PatternSecurityAnalyzer', 'a request', () => `curl -s ${server.url}/anything`],
  ['PolicyRailSecurityAnalyzer', 'a request', () => `node -e "fetch('${server.url}/alive')"`],
  ['PatternSecurityAnalyzer', 'its data', () => 'cat state/*'],
  ['PolicyRailSecurityAnalyzer', 'its data', () => `ls ${workspace}/state`],
])('for the %s, a command that reaches the server (%s) is HIGH', async (analyzer, _, command) => {
  const id = await play([{ name: 'terminal', arguments: { command: command() } }], {
    security_analyzer: { kind: analyzer },
    confirmation_policy: { kind: 'ConfirmRisky', threshold: 'HIGH' },
  })
  await expect.poll(() => status(id), patience).toBe('waiting_for_confirmation')
})

test('no key of the server is in an environment that tools can read', async () => {
  const read = (pid: string) => `tr '\\0' '\\n' < /proc/${pid}/environ; env`
  const id = await play([
    { name: 'terminal', arguments: { command: read('self') } },
    { name: 'terminal', arguments: { command: read(String(server.pid)) } },
    { name: 'terminal', arguments: { command: `tr '\\0' '\\n' < /proc/${server.pid}/environ | base64 -w0` } },
  ])
  await expect.poll(() => status(id), patience).toBe('finished')
  expect(await observations(id)).toHaveLength(3)
  const seen = (await observations(id)).join()
  for (const value of Object.values(secrets)) {
    expect(seen).not.toContain(value)
    expect(seen).not.toContain(Buffer.from(value).toString('base64').slice(0, 16))
  }
})

test('a key that a command encodes is masked in its output', async () => {
  const value = 'token-of-the-conversation-1'
  const id = await play(
    [
      { name: 'terminal', arguments: { command: 'echo -n "$TOKEN" | base64' } },
      { name: 'terminal', arguments: { command: 'echo "key=$TOKEN" | base64 -w0' } },
      { name: 'terminal', arguments: { command: 'echo -n "$TOKEN" | od -An -tx1 | tr -d " \\n"' } },
    ],
    { secrets: { TOKEN: { kind: 'StaticSecret', value } } },
  )
  await expect.poll(() => status(id), patience).toBe('finished')
  const seen = await observations(id)
  expect(seen).toHaveLength(3)
  for (const text of seen) expect(text).toContain('<secret-hidden>')
  for (const form of ['base64', 'hex'] as const)
    expect(seen.join()).not.toContain(Buffer.from(value).toString(form))
})

test.skipIf(process.platform !== 'linux' || process.getuid?.() !== 0)(
  'even root finds no secret in the first environment of the server',
  async () => {
    const environ = await readFile(`/proc/${server.pid}/environ`, 'latin1')
    expect(environ).toContain('SLIPWAY_SESSION_API_KEY=')
    for (const value of Object.values(secrets)) expect(environ).not.toContain(value)
  },
)

test('the server still knows its key', async () => {
  expect((await fetch(`${server.url}/api/conversations/search`)).status).toBe(401)
  expect((await client.call('searchConversations', {})).items).toEqual([])
})
