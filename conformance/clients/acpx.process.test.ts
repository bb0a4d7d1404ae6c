import { join } from 'node:path'
import { commandMain } from '@slipway/shared/process/testing'
import { afterAll, expect, test } from 'vitest'
import { SessionFixture } from '../../packages/cli/src/session/testing/session-fixture.ts'
import { runProgram } from '../support/npm-packages.ts'
import { installNpmTools } from '../support/npm-tools.ts'

/** `slipway acp` driven by a published client of the Agent Client Protocol. */
const tools = await installNpmTools('acp-tools')
if (typeof tools === 'string') console.warn(`SKIPPED: ${tools}`)
const user = await SessionFixture.open()
afterAll(async () => {
  await user.reset()
  await user.dispose()
})

/** Ends with an exit code; the client's own background process ends 20 s after its last prompt. */
async function acpx(code: number, ...args: string[]): Promise<string> {
  const directory = typeof tools === 'string' ? '' : tools.directory
  const program = join(directory, 'node_modules/acpx/dist/cli.js')
  const agent = `${process.execPath} ${commandMain} acp`
  const result = await runProgram(process.execPath, [program, '--ttl', '20', '--agent', agent, ...args], {
    cwd: user.project,
    env: { ...user.modelEnv, HOME: user.home, SLIPWAY_LOG_LEVEL: 'error' },
  })
  expect(result, result.output).toMatchObject({ code })
  return result.output
}

test.skipIf(typeof tools === 'string')('acpx: single prompts, permissions, modes, sessions', async () => {
  const lines = (await acpx(0, '--approve-all', '--format', 'json', 'exec', 'danger')).trim().split('\n')
  const messages = lines.map((line) => JSON.parse(line))
  expect(messages.at(-1)).toMatchObject({ result: { stopReason: 'end_turn' } })
  expect(messages.find(({ method }) => method === 'session/request_permission')).toMatchObject({
    params: { toolCall: { title: 'rm -rf ./old', kind: 'execute' } },
  })
  // It ends so when a permission was refused.
  expect(await acpx(5, '--deny-all', 'exec', 'danger')).toMatch(
    /The user rejected this action\.[\s\S]*\[done\] end_turn/,
  )
  const id = (await acpx(0, '--format', 'quiet', 'sessions', 'new')).trim()
  expect(await acpx(0, 'prompt', 'hello')).toContain('I heard')
  expect(await acpx(0, 'set-mode', 'never')).toContain('never')
  expect(await acpx(0, 'prompt', 'danger')).toMatch(/\(completed\)[\s\S]*All of it is done\./)
  expect(await acpx(0, 'sessions', 'list')).toContain(id)
  expect(await acpx(0, 'sessions', 'close')).toContain(id)
})
