import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Client, type JSONRPCMessage, type Transport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { runCommand, spawnCommand } from '../testing/command-process.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 })

const canary = 'canary-of-the-mcp-server'

/** An MCP server whose one tool is named after a variable of its environment. */
const program = `
import { createInterface } from 'node:readline'
const send = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } })
  const name = process.env.SERVICE_TOKEN === '${canary}' ? 'with_token' : 'without_token'
  if (method === 'tools/list') send(id, { tools: [{ name: name + '_' + process.env.MODE, inputSchema: { type: 'object' } }] })
})
`

let directory: string
let server: ReturnType<typeof spawnCommand>
let file: string
let url: string

const runCli = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  runCommand(['mcp', ...args], { cwd: directory, env: { HOME: directory, SLIPWAY_URL: url, ...env } })

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-mcp-test-'))
  file = join(directory, 'mcp-server.mjs')
  await writeFile(file, program)
  const args = ['serve', '--port', '0', '--json', '--no-console']
  server = spawnCommand(args, { cwd: directory, env: { HOME: directory, SLIPWAY_LOG_LEVEL: 'error' } })
  server.stderr.resume()
  const [line] = await once(createInterface({ input: server.stdout }), 'line')
  url = JSON.parse(line).url
})

afterAll(async () => {
  server.kill('SIGTERM')
  if (server.exitCode === null) await once(server, 'close')
  await rm(directory, { recursive: true, force: true })
})

test('a program is tested, added, listed without its secrets, tested again and removed', async () => {
  const variables = ['--env', 'SERVICE_TOKEN', '--env', 'MODE=plain']
  const added = await runCli(['add', 'files', ...variables, '--', process.execPath, file, '-y'], {
    SERVICE_TOKEN: canary,
  })
  expect(added).toMatchObject({ code: 0, stderr: '', stdout: 'added, with 1 tool: with_token_plain\n' })
  const listed = await runCli(['ls'])
  expect(listed.stdout).toMatch(/^files +on +\* +\S+ \S+mcp-server\.mjs -y$/m)
  const [line = ''] = (await runCli(['--json'])).stdout.split('\n')
  expect(JSON.parse(line)).toMatchObject({ name: 'files', command: process.execPath, args: [file, '-y'] })
  expect(listed.stdout + line).not.toContain(canary)
  const tested = await runCli(['test', 'files', '--json'])
  expect(JSON.parse(tested.stdout)).toEqual({ name: 'files', tools: ['with_token_plain'] })
  // With a second server agents have other names for the tools.
  await runCli(['add', 'my.notes', '--no-test', '--', 'true'])
  expect((await runCli(['ls'])).stdout).toMatch(/^files +on +files_\* .*\nmy\.notes +on +my_notes_\* /m)
  expect((await runCli(['test', 'files'])).stdout).toBe('1 tool: files_with_token_plain\n')
  await runCli(['rm', 'my.notes'])
  expect((await runCli(['test', 'files'])).stdout).toBe('1 tool: with_token_plain\n')
  const again = await runCli(['add', 'files', '--', 'other'])
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('slipway mcp rm files') })
  expect(await runCli(['rm', 'files'])).toMatchObject({ code: 0, stdout: 'removed\n' })
  const gone = await runCli(['test', 'files'])
  expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining('There are: none') })
})

test('paths of the command are those of the current directory, and a missing file is named', async () => {
  const added = await runCli([
    'add',
    'near',
    '--no-test',
    '--',
    process.execPath,
    'mcp-server.mjs',
    '.',
    'x/y',
  ])
  expect(added).toMatchObject({ code: 0, stderr: '' })
  const [line = ''] = (await runCli(['ls', '--json'])).stdout.split('\n')
  expect(JSON.parse(line)).toMatchObject({ command: process.execPath, args: [file, directory, 'x/y'] })
  expect(await runCli(['rm', 'near'])).toMatchObject({ code: 0 })
  for (const command of [['./no-program'], ['node', 'no-script.mjs'], ['python3', './no/script.py']]) {
    const missing = await runCli(['add', 'gone', '--no-test', '--', ...command])
    expect(missing).toMatchObject({ code: 1, stdout: '' })
    expect(missing.stderr).toContain(`There is no file ${join(directory, command.at(-1) ?? '')}.`)
  }
  expect((await runCli(['ls', '--json'])).stdout).toBe('')
})

test('what does not answer is not added, unless no one tests it', async () => {
  const refused = await runCli(['add', 'broken', '--', process.execPath, '-e', '0'])
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('does not answer') })
  expect((await runCli(['ls', '--json'])).stdout).toBe('')
  expect(await runCli(['add', 'broken', '--no-test', '--', process.execPath, '-e', '0'])).toMatchObject({
    code: 0,
  })
  expect(await runCli(['test', 'broken'])).toMatchObject({ code: 1, stdout: '' })
  expect(await runCli(['rm', 'broken'])).toMatchObject({ code: 0 })
})

test('an address has its token from the environment; secrets on the command line are refused', async () => {
  const remote = [
    'add',
    'far',
    '--address',
    'http://127.0.0.1:1/mcp',
    '--token-env',
    'FAR_TOKEN',
    '--no-test',
  ]
  expect(await runCli(remote)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('FAR_TOKEN is not set'),
  })
  expect(await runCli(remote, { FAR_TOKEN: canary })).toMatchObject({ code: 0, stdout: 'added\n' })
  const { stdout } = await runCli(['ls', '--json'])
  expect(JSON.parse(stdout)).toMatchObject({ name: 'far', url: 'http://127.0.0.1:1/mcp' })
  expect(stdout).not.toContain(canary)
  await runCli(['rm', 'far'])
  const shown = await runCli(['add', 'x', '--env', `SERVICE_TOKEN=${canary}`, '--', 'true'])
  expect(shown).toMatchObject({ code: 1, stderr: expect.stringContaining('--env SERVICE_TOKEN') })
  expect(shown.stderr).not.toContain(canary)
  expect(await runCli(['add', 'x'])).toMatchObject({ code: 2 })
})

test('the conversations of the server are served by stdio, as far as the key allows', async () => {
  const env = { HOME: directory, SLIPWAY_URL: url }
  const made = await runCommand(['keys', 'add', 'x', '--scope', 'read', '--json'], { cwd: directory, env })
  const { key } = JSON.parse(made.stdout) as { key: string }
  const names = async (sessionKey: Readonly<Record<string, string>>, mode: 'auto' | 'legacy') => {
    const child = spawnCommand(['mcp', 'serve'], { cwd: directory, env: { ...env, ...sessionKey } })
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
    const transport = new PipeTransport(child)
    await client.connect(transport)
    const { tools } = await client.listTools()
    const { content, isError } = await client.callTool({ name: 'list_conversations', arguments: {} })
    expect([isError ?? false, JSON.stringify(content)]).toEqual([
      false,
      expect.stringContaining('conversations'),
    ])
    expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(3)
    await client.close()
    expect(await transport.exitCode).toBe(0)
    return tools.map(({ name }) => name)
  }
  expect(await names({}, 'auto')).toContain('answer_question')
  expect(await names({ SLIPWAY_SESSION_API_KEY: key }, 'legacy')).not.toContain('send_message')
})

/** Messages of a program that was started, one a line. */
class PipeTransport implements Transport {
  readonly #child: ReturnType<typeof spawnCommand>
  readonly exitCode: Promise<number | null>
  onclose?: () => void
  onmessage?: (message: JSONRPCMessage) => void

  constructor(child: ReturnType<typeof spawnCommand>) {
    this.#child = child
    this.exitCode = once(child, 'close').then(([code]) => code)
  }

  async start(): Promise<void> {
    this.#child.stderr.resume()
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.onmessage?.(JSON.parse(line)))
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.#child.stdin.write(`${JSON.stringify(message)}\n`)
  }

  async close(): Promise<void> {
    this.#child.stdin.end()
    this.onclose?.()
  }
}
