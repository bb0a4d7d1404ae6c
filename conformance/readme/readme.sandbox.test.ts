import { afterAll, beforeAll, expect, test } from 'vitest'
import { ExampleRunner, readCodeBlocks } from '../support/readme.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { textModel } from '../support/sandbox-server/user.ts'

const shellBlocks = readCodeBlocks().filter(
  ({ page, language }) => page === 'docs/walk.md' && language === 'sh',
)
const shellBlock = (start: string) => shellBlocks.find(({ text }) => text.startsWith(start))?.text ?? ''

let server: SandboxServer
let runner: ExampleRunner

beforeAll(async () => {
  server = await SandboxServer.open()
  runner = await ExampleRunner.open({ SLIPWAY_SANDBOX_URL: server.url, SLIPWAY_API_KEY: server.key })
})
afterAll(async () => {
  await runner[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
}, 120_000)

test('the requests of the walk start, pause, resume and delete a sandbox', {
  timeout: 120_000,
}, async () => {
  const text = shellBlock('export SLIPWAY_API_KEY')
    .replace(/^export SLIPWAY_API_KEY=.*\n/, '')
    .replace('localhost:3000', new URL(server.url).host)
  const { stdout, failures } = await runner.runShell(text)
  expect(failures).toEqual([])
  expect(stdout).toMatch(/"status":"WORKING"[\s\S]*"status":"(?:STARTING_CONVERSATION|READY)"/)
  expect(stdout).toContain('ObservationEvent')
  expect(await server.listSandboxes()).toEqual([])
})

test('the commands of the walk and the program of the client start sandboxes', {
  timeout: 120_000,
}, async () => {
  const settings = { agent_settings_diff: { llm: textModel } }
  await server.requestJson('POST', '/api/v1/settings', settings)
  const commands = await runner.runShell(shellBlock('npx slipway app start'))
  expect(commands.failures).toEqual([])
  expect(commands.stdout).toContain('Answer 0.')
  const program = await runner.runProgram('sandbox-client')
  expect(program.stdout, program.stderr).toMatch(/^READY/)
  expect((await server.listSandboxes()).map(({ status }) => status)).toContain('PAUSED')
})
