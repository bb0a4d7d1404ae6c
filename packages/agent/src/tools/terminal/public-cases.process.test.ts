import { execFileSync } from 'node:child_process'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { observation } from '@slipway/protocol'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import { Workspace } from '../../workspace/workspace.ts'
import type { Tool } from '../core/tool.ts'
import { openTerminal } from './terminal.ts'

/**
 * The public cases of OpenHands' terminal (software-agent-sdk, `tests/tools/terminal`), restated. Those of
 * its tmux and Windows implementations, and of its own parser of commands, have no counterpart.
 */
vi.setConfig({ testTimeout: 180_000 })

let base: string
let directory: string
let workspace: Workspace
let tool: Tool
beforeEach(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'terminal-cases-')))
  directory = join(base, 'workspace')
  execFileSync('mkdir', ['-p', directory, join(base, 'conversation')])
  workspace = await Workspace.open({ directory, env: { PATH: process.env.PATH ?? '', HOME: directory } })
  const context = { workspace, secrets: new Secrets(), directory: join(base, 'conversation') }
  tool = (await openTerminal(context, { no_change_timeout_seconds: 2 })) as Tool
})
afterEach(async () => {
  await tool.close?.()
  await workspace[Symbol.asyncDispose]()
  await rm(base, { recursive: true, force: true })
})

async function run(command: string, more: Record<string, unknown> = {}) {
  const parsed = tool.parse({ command, ...more })
  if ('error' in parsed) throw new Error(parsed.error)
  const seen = observation.parse(await tool.run(parsed.action, new AbortController().signal))
  if (seen.kind !== 'TerminalObservation') throw new Error(seen.kind)
  const texts = seen.content.map((part) => ('text' in part ? part.text : ''))
  return { ...seen, text: texts.join('\n') }
}

/** What a command and the calls that wait for its end have shown. */
async function runToEnd(command: string, more: Record<string, unknown> = {}) {
  let seen = await run(command, more)
  let text = seen.text
  for (let tries = 0; seen.exit_code === -1 && tries < 60; tries++) {
    seen = await run('')
    text += seen.text
  }
  return { ...seen, text }
}

test.each<[string, string, RegExp, number]>([
  ['a command', "echo 'Hello'", /Hello/, 0],
  ['several in a line', 'pwd && ls -l', /total 0/, 0],
  ['the home directory', 'cd ~ && pwd', /workspace/, 0],
  ['a command that is missing', 'non_existing_command', /not found/, 127],
  ['no expansion of the history', 'echo A!B', /A!B/, 0],
  ['several lines in quotes', 'echo -e "hello\nworld"', /hello\nworld/, 0],
  ['a continued line', 'echo "a \\\nb"', /a b/, 0],
  ['a loop in several lines', 'for i in 1 2 3; do\n  echo "n$i"\ndone', /n1\nn2\nn3/, 0],
  ['several commands in lines', 'echo one\necho two\n\n# note\necho three', /one\ntwo\nthree/, 0],
  ['a function', 'f() {\n  echo "in f: $1"\n}\nf x', /in f: x/, 0],
  [
    'a semicolon with a backslash',
    'echo found > f.txt; find . -type f -exec grep -l found {} \\;',
    /f\.txt/,
    0,
  ],
  ['over-escaped operators', "echo a && echo 'b;c' | cat", /a\nb;c/, 0],
  ['a substitution', 'echo "$(echo "in $(echo deep)")"', /in deep/, 0],
  ['a variable with a default', `echo "\${NOTHING:-default}"`, /default/, 0],
])('%s', async (_, command, shown, exit) => {
  const seen = await runToEnd(command)
  expect(seen.text).toMatch(shown)
  expect(seen.exit_code).toBe(exit)
})

test.each([5, 20, 21, 50, 100, 1000])('a here document of %i lines is read whole', async (count) => {
  const lines = Array.from({ length: count }, (_, at) => `Line ${at}: ${'x'.repeat(60)}`)
  const seen = await runToEnd(
    `cat > out.txt <<'EOF'\n${lines.join('\n')}\nEOF\nwc -l < out.txt; tail -n 1 out.txt`,
  )
  expect(seen.text).toContain(`${count}\n${lines.at(-1)}`)
  expect(seen.exit_code).toBe(0)
})

test('directory and variables stay, and no prompt is in the output', async () => {
  await run('mkdir -p test && cd test && export TEST_VAR=hello')
  const seen = await run('pwd; echo $TEST_VAR')
  expect(seen.text).toContain(`${directory}/test\nhello`)
  expect(seen.metadata?.working_dir).toBe(`${directory}/test`)
  expect(seen.text).not.toMatch(/PS1|PS2|^\$ |^> /m)
})

test('a reset gives a new shell in the workspace, any number of times, and runs its command', async () => {
  await run('export TEST_VAR=hello; cd /')
  for (let round = 0; round < 2; round++) {
    const reset = await run('', { reset: true })
    expect(reset.is_error).toBe(false)
    expect(reset.text).toMatch(/reset|new shell|new terminal/i)
  }
  expect((await run('echo "[$TEST_VAR]"; pwd')).text).toContain(`[]\n${directory}`)
  expect((await run("echo 'from the new one'", { reset: true })).text).toContain('from the new one')
})

test('a reset is no input', async () => {
  const parsed = tool.parse({ command: '', reset: true, is_input: true })
  const said = 'error' in parsed ? parsed.error : (await run('', { reset: true, is_input: true })).text
  expect(said).toMatch(/reset/)
  expect(said).toMatch(/is_input/)
})

test('a question gets its answer', async () => {
  const asked = await run('read -p \'Enter name: \' name && echo "Hello $name"')
  expect(asked.text).toContain('Enter name:')
  expect(asked.exit_code).toBe(-1)
  const answered = await runToEnd('John', { is_input: true })
  expect(answered.text).toContain('Hello John')
  expect(answered.exit_code).toBe(0)
})

test('an interpreter is talked to', async () => {
  await run('node -i')
  expect((await run('6 * 7', { is_input: true })).text).toContain('42')
  await runToEnd('C-d', { is_input: true })
  expect((await runToEnd('echo back')).text).toContain('back')
})

test('CTRL-C ends a loop, and the next command runs', async () => {
  expect((await run("while true; do echo 'looping'; sleep 3; done")).exit_code).toBe(-1)
  await runToEnd('C-c', { is_input: true })
  const next = await runToEnd("echo 'test_complete'")
  expect(next.text).toContain('test_complete')
  expect(next.exit_code).toBe(0)
})

test('without a running command there is no output to wait for', async () => {
  expect(await run('')).toMatchObject({ is_error: true })
})

test('the output of a slow command comes piece by piece, and whole', async () => {
  const seen = await runToEnd('for i in {1..3}; do echo "n$i"; sleep 3; done')
  for (const piece of ['n1', 'n2', 'n3']) expect(seen.text).toContain(piece)
  expect(seen.exit_code).toBe(0)
})

test('a command that runs refuses another one, and says what can be done', async () => {
  expect((await run('sleep 100')).exit_code).toBe(-1)
  const other = await run('echo other')
  expect(other.text).not.toMatch(/^other$/m)
  await runToEnd('C-c', { is_input: true })
})

test('a server in the background leaves the terminal free', async () => {
  const started = await runToEnd('sleep 1000 > server.log 2>&1 &\necho started')
  expect(started.text).toContain('started')
  expect((await runToEnd('kill %1; echo after')).text).toContain('after')
})

test('a long output is cut in the middle, and its end and the exit code are there', async () => {
  const seen = await runToEnd('for i in {1..20000}; do echo "Line $i"; done; (exit 3)')
  expect(seen.text.length).toBeLessThan(60_000)
  expect(seen.text).toMatch(/Line 1\n/)
  expect(seen.text).toContain('Line 20000')
  expect(seen.exit_code).toBe(3)
})

test('no pager takes the terminal', async () => {
  await writeFile(join(directory, 'module.py'), `${'# line\n'.repeat(800)}def encode(): pass\n`)
  const identity = '-c user.email=a@b.test -c user.name=x'
  await runToEnd(`git init -q && git add -A && git ${identity} commit -qm init`)
  expect((await runToEnd('git log -p')).exit_code).toBe(0)
  const seen = await runToEnd("grep -n 'def encode' module.py")
  expect(seen.text).toContain('def encode')
  expect(seen.text).not.toContain('diff --git')
})

test.each([
  ['a cursor position', '\\033[6n'],
  ['a background colour', '\\033]11;?\\007'],
  ['a device attribute', '\\033[c'],
  ['a setting', '\\033P$q q\\033\\\\'],
])('%s that a program asks for is neither shown nor typed', async (_, sequence) => {
  const seen = await runToEnd(`printf 'before${sequence}after\\n'`)
  expect(seen.text).toContain('beforeafter')
  expect((await runToEnd('echo next')).text).toMatch(/^next/)
})
