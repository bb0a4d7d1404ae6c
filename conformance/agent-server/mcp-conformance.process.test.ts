import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { installNpmTools } from '../support/npm-tools.ts'

/**
 * The official conformance suites of the protocol against `/mcp`, and the command line of its Inspector. Most
 * scenarios of the suites call tools, prompts and resources of a reference server that has one of each kind:
 * those say nothing about another server. What passes is listed, and the lists only grow.
 */

/** By suite and arguments: the scenarios that pass. */
const passing = [
  {
    suite: 'mcp-conformance-0.1',
    args: ['--suite', 'all'],
    scenarios: [
      ...['server-initialize', 'ping', 'tools-list', 'server-sse-polling', 'server-sse-multiple-streams'],
      ...['resources-list', 'dns-rebinding-protection'],
    ],
  },
  {
    suite: '@modelcontextprotocol/conformance',
    args: ['--requirements', '2025-11-25'],
    scenarios: [
      ...['server-initialize', 'ping', 'tools-list', 'server-sse-polling', 'server-sse-multiple-streams'],
      ...['resources-list', 'dns-rebinding-protection', 'server-session-lifecycle'],
    ],
  },
  {
    suite: '@modelcontextprotocol/conformance',
    args: ['--requirements', '2026-07-28'],
    scenarios: [
      ...['tools-list', 'server-sse-multiple-streams', 'resources-list', 'dns-rebinding-protection'],
      ...['sep-2164-resource-not-found', 'http-header-validation', 'tasks-status-notifications'],
      ...['input-required-result-missing-input-response', 'input-required-result-unsupported-methods'],
      ...['input-required-result-ignore-extra-params', 'input-required-result-validate-input'],
    ],
  },
] as const

/** What a failed check of the stateless era says when it needs a tool or prompt of the reference server. */
const fixtureMissing = /does not list the diagnostic tool|prompts\/list returned JSON-RPC error -32601/

let server: OwnAgentServer
let directory: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-mcp-cf-'))
  server = await OwnAgentServer.open({ isInProcess: true })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await rm(directory, { recursive: true, force: true })
})

function run(program: string, args: readonly string[]): Promise<{ code: number; output: string }> {
  const options = { cwd: directory, env: { ...process.env, HOME: directory }, maxBuffer: 1e8 }
  return new Promise((done) => {
    execFile(process.execPath, [program, ...args], options, (error, stdout, stderr) =>
      done({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    )
  })
}

test.for(passing)('$suite, $args: what concerns this server passes', async ({ suite, args, scenarios }) => {
  const program = fileURLToPath(import.meta.resolve(`${suite}/dist/index.js`))
  const folder = join(directory, args[1])
  const { output } = await run(program, ['server', '--url', `${server.url}/mcp`, ...args, '-o', folder])
  const summary = output.split('=== SUMMARY ===')[1]?.split('Total:')[0] ?? ''
  const lines = [...summary.matchAll(/^(✓|✗) (\S+): /gm)]
  const passed = lines.flatMap(([, mark, name]) => (mark === '✓' ? [String(name)] : []))
  expect(passed.toSorted(), output).toEqual([...scenarios].toSorted())
  for (const name of ['server-stateless', 'caching'])
    for (const failure of await readFailures(folder, name)) expect(failure).toMatch(fixtureMissing)
})

/** The words of the failed checks of a scenario. */
async function readFailures(folder: string, scenario: string): Promise<string[]> {
  const files = (await readdir(folder, { recursive: true })).filter(
    (path) => path.includes(scenario) && path.endsWith('checks.json'),
  )
  const checks = await Promise.all(
    files.map(async (path) => JSON.parse(await readFile(join(folder, path), 'utf8'))),
  )
  return checks.flat().flatMap(({ status, errorMessage }) => (status === 'FAILURE' ? [errorMessage] : []))
}

test('the Inspector lists portable tools, calls one and reads the templates', async ({ skip }) => {
  const tools = await installNpmTools('mcp-tools')
  if (typeof tools === 'string') {
    console.warn(`SKIPPED: ${tools}`)
    return skip(tools)
  }
  const modules = join(tools.directory, 'node_modules')
  const program = join(modules, '@modelcontextprotocol/inspector/clients/launcher/build/index.js')
  const inspect = (...args: readonly string[]) =>
    run(program, ['--cli', `${server.url}/mcp`, '--transport', 'http', ...args])
  const listed = await inspect('--method', 'tools/list', '--strict')
  expect([listed.code, listed.output]).toEqual([0, expect.stringContaining('"answer_question"')])
  const call = ['--method', 'tools/call', '--tool-name', 'search', '--tool-arg', 'failed=true']
  expect(await inspect(...call)).toMatchObject({ code: 0, output: expect.stringContaining('next_cursor') })
  const templates = await inspect('--method', 'resources/templates/list')
  expect(templates).toMatchObject({ code: 0, output: expect.stringContaining('{conversation_id}/diff') })
})
