import { readdirSync, readFileSync } from 'node:fs'
import { copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { usualDataDirectory } from '@slipway/shared/process'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startAgentServer } from '../support/agent-server.ts'
import { MockProvider } from '../support/mock-provider.ts'
import { type CodeBlock, ExampleRunner, readCodeBlocks, root } from '../support/readme.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 })

const blocks = readCodeBlocks()
/** Those of the guides are run by `guides.process.test.ts` and `guides.sandbox.test.ts`. */
const shellBlocks = blocks.filter(
  ({ page, language }) => language === 'sh' && !page.startsWith('docs/guide/'),
)
const programs = new Map(
  readdirSync(join(root, 'examples/readme')).map((file) => [
    file,
    readFileSync(join(root, 'examples/readme', file), 'utf8'),
  ]),
)

/** Shell blocks, by their first words, that no test here runs, and why. */
const otherShellBlocks: Readonly<Record<string, string>> = {
  'slipway backup /backups/agent': 'maintenance/backup.process.test.ts runs these commands',
  'slipway export 7f3c1de2 --verifiable': 'verifiable-export.process.test.ts runs these commands',
  'slipway documents ls': 'packages/cli/src/program/local-data.process.test.ts runs these commands',
  'slipway audit --refused': 'sandboxes/sandboxes.sandbox.test.ts runs these commands',
  'slipway accept-log --data': 'events/accept-log.process.test.ts runs these commands',
  'npm ci': 'they install and run everything; .ci/run does',
  'npx slipway serve ': 'it runs until it is stopped; the tests start this server',
  'npm pack @openhands/agent-canvas':
    'it downloads; conformance/clients/web-client.browser.test.ts does the same',
  'SLIPWAY_ALLOWED_ORIGINS=':
    'it runs until it is stopped; conformance/clients/web-client-cloud.browser.test.ts does the same',
  'npm run demo:sandbox':
    'examples/demo-sandbox/demo.sandbox.test.ts runs the demo, readme.sandbox.test.ts the server',
  'npm run bench': 'it takes long, and its figures are true on an idle machine only',
  'npx slipway sandbox-server': 'it runs until it is stopped; readme.sandbox.test.ts starts this server',
  'export SLIPWAY_API_KEY': 'readme.sandbox.test.ts runs it',
  'npx slipway app start': 'readme.sandbox.test.ts runs it',
  'npm run contract': 'it takes minutes; conformance/contract/contract.crash.test.ts runs the same programs',
  'npm install -g slipway-0.2.0.tgz':
    'it needs a cluster and an image; conformance/sandbox-server/kubernetes.k8s.test.ts starts this server',
  'export SLIPWAY_DATABASE_URL':
    'it needs PostgreSQL; conformance/sandbox-server/replicas.pg.test.ts starts these servers',
  'slipway migrate': 'it needs PostgreSQL; packages/storage/src/migrate/migrate.pg.test.ts does the same',
  'slipway mcp add files': 'it downloads; packages/cli/src/program/mcp.process.test.ts runs these commands',
  'npm run image': 'it needs a container engine; .ci/engines builds the image',
}
const logBlock = 'cp examples/sample-log/sample.jsonl log.jsonl'
const recordedBlock = 'npx slipway import examples/sample-log/sample.jsonl'
const runBlock = 'export LLM_API_KEY=...'
const firstTaskBlock = 'export LLM_MODEL=anthropic/claude-sonnet-4-5'
const localModelBlock = 'npx slipway run "Write a greeting'
const curlBlock = 'KEY="x-session-api-key: $(cat "$(npx slipway data)/session.key")"'
const cliRunBlock = 'export LLM_MODEL=anthropic/NAME'
const configBlock = 'npx slipway config set model.name'
const gatewayBlock = 'curl -si http://127.0.0.1:8000/v1/chat/completions'

let server: Awaited<ReturnType<typeof startAgentServer>>
let sessionKey: string
let provider: MockProvider
let runner: ExampleRunner

beforeAll(async () => {
  provider = await MockProvider.open()
  provider.replies = [{ text: 'Done.' }]
  runner = await ExampleRunner.open({})
  await mkdir(join(runner.directory, 'project'))
  await symlink(join(root, 'examples'), join(runner.directory, 'examples'))
  await copyFile(join(root, 'examples/sample-log/sample.jsonl'), join(runner.directory, 'log.jsonl'))
  // With its own key, where the commands look for it.
  const { directory } = runner
  const { path: data } = await usualDataDirectory('agent', { env: { HOME: directory }, directory })
  server = await startAgentServer(data, { SLIPWAY_NO_KEY: '' })
  sessionKey = (await readFile(join(data, 'session.key'), 'utf8')).trim()
})
afterAll(async () => {
  await server.stop()
  await provider[Symbol.asyncDispose]()
  await runner[Symbol.asyncDispose]()
})

/** The block that begins with a text, with some texts replaced; each of them must be there. */
function shellBlock(start: string, replacements: Readonly<Record<string, string>> = {}): string {
  let text = shellBlocks.find((block) => block.text.startsWith(start))?.text ?? ''
  expect(text, start).not.toBe('')
  for (const [from, to] of Object.entries(replacements)) {
    expect(text).toContain(from)
    text = text.replaceAll(from, to)
  }
  return text
}

async function runShell(text: string, env: Readonly<Record<string, string>> = {}) {
  return await runner.runShell(text, { SLIPWAY_URL: server.url, ...env })
}

async function postJson(path: string, body: object): Promise<{ id: string }> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-api-key': sessionKey },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  return (await response.json()) as { id: string }
}

async function getJson(path: string): Promise<{ items: { id: string }[] }> {
  const response = await fetch(server.url + path, { headers: { 'x-session-api-key': sessionKey } })
  return (await response.json()) as { items: { id: string }[] }
}

async function newestConversation(): Promise<string> {
  return (await getJson('/api/conversations/search')).items[0]?.id ?? ''
}

test('each TypeScript block of a page is a program of examples/readme, and each program is in a page', () => {
  const shown = blocks.filter(({ language }) => language === 'ts')
  for (const { page, text } of shown) expect([...programs.values()], page).toContain(text)
  const texts = shown.map(({ text }) => text)
  for (const [file, text] of programs) expect(texts, file).toContain(text)
})

test('each shell block of a page is run by a test, or a reason is given', () => {
  const starts = [
    ...Object.keys(otherShellBlocks),
    logBlock,
    recordedBlock,
    runBlock,
    firstTaskBlock,
    localModelBlock,
    curlBlock,
    cliRunBlock,
    gatewayBlock,
    configBlock,
  ]
  const isCovered = ({ text }: CodeBlock) => starts.some((start) => text.startsWith(start))
  expect(shellBlocks.filter((block) => !isCovered(block))).toEqual([])
  for (const start of starts)
    expect(
      shellBlocks.some(({ text }) => text.startsWith(start)),
      start,
    ).toBe(true)
})

test('each npm script that a page names exists', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  for (const { page, text } of blocks.filter(({ language }) => language === 'sh'))
    for (const [, name = ''] of text.matchAll(/npm run ([\w:]+)/g))
      expect(Object.keys(scripts), page).toContain(name)
})

test('each JSON block of a page is JSON', () => {
  for (const { page, text } of blocks.filter(({ language }) => language === 'json'))
    expect(() => JSON.parse(text), page).not.toThrow()
})

test.each([
  ['agent-server', /^\{ status: 'ready' \}$/m],
  ['agent', /^finished$/m],
  ['http', /^\{ text: 'Hello' \}$/m],
  ['protocol', /limit: 20/],
  ['sandbox-server', /^\{ status: 'ready' \}$/m],
  ['shared', /'c is here'/],
  ['storage', /^1 \{.*"kind":"PauseEvent"\}$/m],
])('the program %s of a README runs to its end', async (name, expected) => {
  const { code, stdout, stderr } = await runner.runProgram(name)
  expect(stdout, stderr).toMatch(expected)
  expect(code).toBe(0)
})

test('the programs of the client talk to a server', async () => {
  const env = { SLIPWAY_URL: server.url, SLIPWAY_SESSION_API_KEY: sessionKey }
  await using withServer = await ExampleRunner.open(env)
  const client = await withServer.runProgram('client')
  expect(client.stdout, client.stderr).toMatch(/^2 messages$/m)
  const follow = await withServer.runProgram('follow', [await newestConversation()], 20_000)
  expect(follow.stdout, follow.stderr).toMatch(/^1 SystemPromptEvent\n2 MessageEvent\n/)
})

test('the commands of the walk import, list, search, follow and export a log', async () => {
  const { stdout, failures } = await runShell(shellBlock(logBlock))
  expect(failures).toEqual([])
  expect(stdout).toMatch(/^Imported 60 events/)
  expect(stdout).toMatch(/^60 .* status: finished$/m)
  const [log, copy] = await Promise.all(
    ['log.jsonl', 'copy.jsonl'].map((file) => readFile(join(runner.directory, file), 'utf8')),
  )
  expect(copy).toBe(log)
})

test('the commands of the walk and of the CLI run an agent', async () => {
  const { id } = await postJson('/api/conversations', {
    agent: { llm: provider.llm('anthropic'), tools: [{ name: 'terminal' }] },
    workspace: { working_dir: join(runner.directory, 'project') },
  })
  const llm = { LLM_BASE_URL: provider.url, ID: id }
  const cli = await runShell(shellBlock(cliRunBlock, { NAME: 'claude-sonnet-4-5' }), llm)
  expect(cli.failures).toEqual([])
  expect(cli.stdout.match(/^ {2}Done\.$/gm)).toHaveLength(2)
  provider.replies = [
    { text: 'Done.' },
    { calls: [{ name: 'terminal', arguments: { command: 'git push' } }] },
    { text: 'Done.' },
  ]
  const { stdout, failures } = await runShell(shellBlock(runBlock), llm)
  // With `--ask` the call waits for confirmation: code 3.
  expect(failures).toEqual([expect.stringContaining('FAILED 3: npx slipway run "Now fix what it found"')])
  expect(stdout).toContain('with 2 events')
})

test('the first tasks of the README run with a provider and with a local model', async () => {
  provider.replies = [{ text: 'Done.' }]
  const withProvider = await runShell(shellBlock(firstTaskBlock), { LLM_BASE_URL: provider.url })
  expect(withProvider.failures).toEqual([])
  expect(withProvider.stdout).toMatch(/^ {2}Done\.$/m)
  const host = new URL(provider.url).host
  const local = await runShell(shellBlock(localModelBlock, { '127.0.0.1:11434': host }))
  expect(local.failures).toEqual([])
  expect(local.stdout).toMatch(/^ {2}Done\.$/m)
})

test('a reader without a model looks at a recorded conversation', async () => {
  const { stdout, failures } = await runShell(shellBlock(recordedBlock))
  expect(failures).toEqual([])
  expect(stdout).toMatch(/^Imported 60 events[\s\S]*▸ task_tracker plan[\s\S]*npm test {2}exit 1$/m)
})

test('the requests of the walk create, import, search and follow', async () => {
  const llm = JSON.stringify(provider.llm('chat'))
  const text = shellBlock(curlBlock, {
    'localhost:8000': new URL(server.url).host,
    '{"model": "openai/gpt-5", "api_key": "..."}': llm,
  })
  const { stdout, failures } = await runShell(text, { ID: await newestConversation() })
  expect(failures).toEqual([])
  expect(stdout).toContain('"execution_status":"')
  expect(stdout).toContain('"imported":60')
})

test('the request of the gateway is answered', async () => {
  await postJson('/api/profiles/default', { llm: provider.llm('chat') })
  const text = shellBlock(gatewayBlock, { '127.0.0.1:8000': new URL(server.url).host })
  const { stdout, failures } = await runShell(text)
  expect(failures).toEqual([])
  expect(stdout).toMatch(/^HTTP\/1.1 200 [\s\S]*"content":"Done\."/)
})

test('the commands of the page of the configuration write the file that it shows', async () => {
  await using fresh = await ExampleRunner.open({})
  const { stdout, failures } = await fresh.runShell(shellBlock(configBlock))
  expect(failures).toEqual([])
  expect(stdout).toMatch(/^agent_server\.max_concurrent_runs .* 20$/m)
  const shown = blocks.find(({ page, language }) => page === 'docs/configuration.md' && language === 'toml')
  const path = join(fresh.directory, '.config/slipway/config.toml')
  await writeFile(path, shown?.text ?? '', { mode: 0o600 })
  const listed = await fresh.runShell('npx slipway config list')
  expect(listed.failures).toEqual([])
  expect(listed.stdout).toMatch(/^sandbox_server\.backend .* docker$/m)
})
