import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { observation, Problem } from '@slipway/protocol'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import { Workspace } from '../../workspace/workspace.ts'
import type { Tool } from '../core/tool.ts'
import { openTerminal } from './terminal.ts'

const secretValue = "s3cr'et $(value)\nin two lines"
let base: string
let directory: string
const openTerminals: { close: () => Promise<void> }[] = []

beforeAll(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'terminal-')))
  directory = join(base, 'workspace')
  await mkdir(directory)
})

afterEach(async () => {
  for (const one of openTerminals.splice(0)) await one.close()
})

afterAll(async () => {
  await rm(base, { recursive: true })
})

interface TerminalOutput {
  readonly output: string
  readonly note: string
  readonly text: string
  readonly exit_code?: number | null | undefined
  readonly is_error: boolean
  readonly timeout: boolean
  readonly command: string | null
  readonly metadata: {
    readonly working_dir?: string | null | undefined
    readonly pid: number
    readonly suffix: string
  }
  readonly savedTo: string | undefined
}

type Run = (command: string, more?: Record<string, unknown>, signal?: AbortSignal) => Promise<TerminalOutput>

/** A separate terminal for a test. */
async function openTestTerminal(params: Record<string, unknown> = {}) {
  const workspace = await Workspace.open({
    directory,
    env: { PATH: process.env.PATH ?? '', HOME: directory },
  })
  const conversationDirectory = await mkdtemp(join(base, 'own-'))
  const secrets = new Secrets({
    TOKEN: { kind: 'StaticSecret', value: secretValue, description: undefined },
    UNUSED: { kind: 'StaticSecret', value: 'never-named', description: undefined },
  })
  const tool = (await openTerminal({ workspace, secrets, directory: conversationDirectory }, params)) as Tool
  const close = async () => {
    await tool.close?.()
    await workspace[Symbol.asyncDispose]()
  }
  openTerminals.push({ close })
  const run: Run = async (command, more = {}, signal = new AbortController().signal) => {
    const parsed = tool.parse({ command, ...more })
    if ('error' in parsed) throw new Error(parsed.error)
    const seen = observation.parse(await tool.run(parsed.action, signal))
    if (seen.kind !== 'TerminalObservation' || seen.metadata === undefined)
      throw new Error('not of the terminal')
    const texts = seen.content.map((part) => ('text' in part ? part.text : ''))
    return {
      ...seen,
      metadata: seen.metadata,
      output: texts.slice(0, -1).join(''),
      note: texts.at(-1) ?? '',
      text: texts.join('\n'),
      savedTo: /whole output is in (\S+):/.exec(texts.join(''))?.[1],
    }
  }
  return { run, tool, conversationDirectory: conversationDirectory, workspace, close }
}

async function waitUntilGone(pid: number): Promise<boolean> {
  for (let round = 0; round < 200; round++) {
    const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
    if (stat === undefined || /\) [ZX] /.test(stat)) return true
    await new Promise((done) => setTimeout(done, 25))
  }
  return false
}

/** Calls with an empty command until the command that runs is over. */
async function runUntilDone(run: Run): Promise<TerminalOutput> {
  for (;;) {
    const output = await run('', { timeout: 5 })
    if (output.exit_code !== -1) return output
  }
}

test('a command gives its output, its exit code and where it is', async () => {
  const { run, tool } = await openTestTerminal()
  const seen = await run('echo out; echo err >&2; (exit 7)')
  expect(seen).toMatchObject({ output: 'out\nerr', exit_code: 7, is_error: false, timeout: false })
  expect(seen.metadata).toMatchObject({ exit_code: 7, working_dir: directory, suffix: seen.note })
  expect(seen.note).toBe('[Exit code 7]')
  const notes = []
  for (const command of ['true', 'cd /', 'pwd', 'exit 3', 'pwd']) notes.push((await run(command)).note)
  expect(notes, 'the directory, when it is another one').toEqual([
    '[Exit code 0]',
    '[Exit code 0. Working directory: /]',
    '[Exit code 0]',
    expect.stringContaining(`gets a new one in ${directory}`),
    `[Exit code 0. Working directory: ${directory}]`,
  ])
  expect(tool.resources({} as never)).toEqual(['terminal:session'])
  expect(tool.definition.description?.length).toBeGreaterThan(1000)
})

test('directory, variables, functions and the last exit code stay from call to call', async () => {
  const { run } = await openTestTerminal()
  await run('mkdir -p "a b" && cd "a b"')
  await run('X=5; f() { echo "f $1"; }; export Y=6')
  await run('(exit 3)')
  const seen = await run('echo $? $X; bash -c "echo \\$Y"; f 1; pwd')
  expect(seen.output).toBe(`3 5\n6\nf 1\n${directory}/a b`)
  expect(seen.metadata.working_dir).toBe(`${directory}/a b`)
})

test.each([
  ['cat <<E\n  a $((1 + 1))\nE', '  a 2'],
  ['for i in 1 2; do\n  echo $i\ndone', '1\n2'],
  ['# a comment\necho x # another', 'x'],
  ['echo a\necho b; echo c\n\n# a comment\necho d\n', 'a\nb\nc\nd'],
  ['cat <<E\n  a\nE\necho after', '  a\nafter'],
  ['cat > "$HOME/m" <<\'E\'\n$x\nE\ncat "$HOME/m"\nf() {\n  echo f\n}\nf', '$x\nf'],
  ['X=1\nif [ "$X" = 1 ]; then\n  echo one\nfi\n[ "$X" = 1 ]', 'one'],
  ['[[ "a" == "a" ]]', ''],
  ['[ "a" = "a" ]', ''],
  ['echo a && \\\n  echo b', 'a\nb'],
  ["echo 'two\nlines'", 'two\nlines'],
  [`echo ${'y'.repeat(100_000)} | wc -c`, '100001'],
  ["printf '%s|' \"!x\" '!!' \\'", "!x|!!|'|"],
  ['echo "a\tb"', 'a\tb'],
  ["shopt -s extglob; eval 'echo @(nothing|else)'", '@(nothing|else)'],
  ['git --version | head -c 3; man -P cat 2>/dev/null; echo $PAGER $GIT_PAGER', 'gitcat cat'],
])('%.40j writes %j', async (command, output) => {
  const { run } = await openTestTerminal()
  expect(await run(command)).toMatchObject({ output, exit_code: 0, is_error: false })
})

test.each([
  ['echo "abc', 'syntax error'],
  ['echo $(ls', 'syntax error'],
  ['if true; then', 'syntax error'],
  ['["ls", "-la"]', 'not a command'],
  ["['ls']", 'not a command'],
  ['{"command": "ls"}', 'not a command'],
  ['[{"command": "ls"}]', 'not a command'],
  ['[["ls", "-la"]]', 'not a command'],
  ["[{'command': 'ls'}]", 'not a command'],
  ["[['ls'], ['pwd']]", 'not a command'],
  ['[\n  [\n    "ls"\n  ]\n]', 'not a command'],
])('%j is refused with a reason', async (command, why) => {
  const { run } = await openTestTerminal()
  const seen = await run(command)
  expect(seen).toMatchObject({ exit_code: null, is_error: true })
  expect(seen.text).toContain(why)
})

test('arguments that make no sense are refused with a sentence', async () => {
  const { tool } = await openTestTerminal()
  expect(tool.parse({ command: 'x', reset: true, is_input: true })).toMatchObject({
    error: expect.any(String),
  })
  expect(tool.parse({ command: 'a\0b' })).toMatchObject({ error: expect.any(String) })
  expect(tool.parse({ command: 'x', timeout: -1 })).toMatchObject({ error: expect.any(String) })
  expect(tool.parse({})).toMatchObject({ error: expect.any(String) })
})

test.each([{ no_change_timeout_seconds: 0 }, { shell_path: 5 }, { env: { A: 1 } }, { env: [] }])(
  'the parameters %j are refused',
  async (params) => {
    await expect(openTestTerminal(params)).rejects.toBeInstanceOf(Problem)
  },
)

test('parameters set variables and the shell; an invalid shell is reported', async () => {
  const { run } = await openTestTerminal({
    env: { MINE: 'yes', PAGER: 'less' },
    username: 'x',
    terminal_type: 'tmux',
  })
  expect((await run('echo $MINE $PAGER')).output).toBe('yes less')
  const other = await openTestTerminal({ shell_path: join(base, 'no-shell') })
  expect(await other.run('ls')).toMatchObject({ is_error: true, exit_code: null })
})

test('a silent command continues, is waited for and is stopped', async () => {
  const { run } = await openTestTerminal({ no_change_timeout_seconds: 0.5 })
  const silent = await run('echo started; sleep 1000; echo unreached')
  expect(silent).toMatchObject({ output: 'started', exit_code: -1, timeout: false, is_error: false })
  expect(silent.note).toContain('nothing was written for 0.5 seconds')
  const refused = await run('echo other')
  expect(refused).toMatchObject({ exit_code: -1, is_error: true })
  expect(refused.note).toContain('sleep 1000')
  const more = await run('')
  expect(more.output).toContain('No new output')
  const stopped = await run('C-c', { is_input: true, timeout: 20 })
  expect(stopped).toMatchObject({ exit_code: 130, is_error: false })
  expect((await run('echo after')).output).toBe('after')
})

test('a time limit differs from silence', async () => {
  const { run } = await openTestTerminal({ no_change_timeout_seconds: 0.2 })
  const seen = await run('sleep 0.5; echo one; sleep 1000', { timeout: 2 })
  expect(seen).toMatchObject({ output: 'one', exit_code: -1, timeout: true, is_error: false })
  expect(await run('sleep 0.6; echo x', { timeout: 0 })).toMatchObject({ is_error: true })
  await run('C-c', { is_input: true, timeout: 20 })
  expect(await run('sleep 0.6; echo x', { timeout: 0 })).toMatchObject({ exit_code: -1, timeout: true })
  const rest = await runUntilDone(run)
  expect(rest).toMatchObject({ exit_code: 0 })
  expect(rest.output).toMatch(/^\[Output of the command that was running, since the last time:\]\nx$/)
})

test('a program that asks gets its answer', async () => {
  const { run } = await openTestTerminal()
  const start = performance.now()
  const asked = await run('read -r -p "Name? " name; echo "hello $name"')
  expect(asked).toMatchObject({ output: 'Name? ', exit_code: -1 })
  expect(asked.note).toContain('waits for input')
  // Long before the silence of 30 seconds.
  expect(performance.now() - start).toBeLessThan(20_000)
  expect((await run('Bob', { is_input: true })).output).toMatch(/\nhello Bob$/)
})

test('the exit code of several lines is that of the last', async () => {
  const { run } = await openTestTerminal()
  expect(await run('false\ntrue')).toMatchObject({ exit_code: 0 })
  expect(await run('true\n(exit 3)')).toMatchObject({ exit_code: 3 })
  expect(await run('cd /\nY=2')).toMatchObject({ exit_code: 0 })
  expect((await run('pwd\necho $Y')).output).toBe('/\n2')
})

const readsLine = `require('readline').createInterface({input:process.stdin,output:process.stdout})`
test.each([
  ['a question', `node -e "${readsLine}.question('Name? ', () => process.exit())"`],
  [
    'a question of a program with timers',
    `node -e "setInterval(()=>{},5000);${readsLine}.question('n? ',()=>{})"`,
  ],
  ['the interpreter', 'node -i'],
  ['plain input', `node -e "console.log('in');process.stdin.on('data', () => process.exit())"`],
])('Node that waits for %s is noticed', async (_, command) => {
  const { run } = await openTestTerminal()
  const asked = await run(command)
  // Without the check it would be the silence of 30 seconds.
  expect(asked).toMatchObject({ exit_code: -1 })
  expect(asked.note).toContain('waits for input')
  await run('C-c', { is_input: true, timeout: 1 })
})

test('Node that works and could read is not taken for one that waits', async () => {
  const { run } = await openTestTerminal({ no_change_timeout_seconds: 4 })
  const child = `process.stdin.resume();require('child_process').spawn('sleep', ['1000'])`
  expect((await run(`node -e "${child}"`)).note).toContain('nothing was written for 4 seconds')
  await run('C-c', { is_input: true, timeout: 20 })
  const server = `process.stdin.resume();require('net').createServer().listen(0, '127.0.0.1')`
  expect((await run(`node -e "${server}"`)).note).toContain('nothing was written for 4 seconds')
  await run('Ctrl+c', { is_input: true, timeout: 20 })
})

test('keys are pressed: end of input, suspend', async () => {
  const { run } = await openTestTerminal()
  await run('cat')
  const line = await run('typed', { is_input: true, timeout: 1 })
  // Not echoed: it is there once.
  expect(line.output).toMatch(/since the last time:\]\ntyped$/)
  expect(await run('C-d', { is_input: true, timeout: 20 })).toMatchObject({ exit_code: 0 })
  await run('cat')
  expect(await run('C-z', { is_input: true, timeout: 20 })).toMatchObject({ exit_code: 148 })
  expect((await run('jobs')).output).toContain('Stopped')
  expect((await run('kill %1; wait; echo done')).output).toContain('done')
})

test('an interactive interpreter is talked to', async () => {
  const { run } = await openTestTerminal({ no_change_timeout_seconds: 5 })
  expect((await run('python3 -q')).output).toContain('>>>')
  expect((await run('print(6 * 7)', { is_input: true })).output).toContain('42')
  expect((await run('exit()', { is_input: true, timeout: 20 })).exit_code).toBe(0)
})

test('with nothing running there is nothing to wait for', async () => {
  const { run } = await openTestTerminal()
  expect(await run('')).toMatchObject({ is_error: true, exit_code: null })
  expect(await run('y', { is_input: true })).toMatchObject({ is_error: true, exit_code: null })
  expect((await run('echo still fine')).output).toBe('still fine')
})

test('output of a background job comes with the next call', async () => {
  const { run } = await openTestTerminal()
  await run('(sleep 0.3; echo from behind) &')
  await new Promise((done) => setTimeout(done, 1500))
  expect((await run('echo in front')).output).toMatch(/^from behind\n(.*\n)?in front(\n|$)/s)
})

test('what was typed and not read is not run as a command', async () => {
  const { run } = await openTestTerminal()
  const marked = join(directory, 'marked')
  await run('read -r x; sleep 0.5', { timeout: 0.2 })
  await run(`first\ntouch ${marked}\npartial`, { is_input: true, timeout: 0.2 })
  await runUntilDone(run)
  expect((await run(`ls ${marked}; echo fine`)).output).toMatch(/No such file.*\nfine$/s)
})

test.each([
  ['exit 3', 3],
  ['set -e; (exit 4); echo unreached', 4],
  ['exec true', 0],
  ['kill -9 $$', 137],
])('%j ends the shell, and the next command has a new one', async (command, exit_code) => {
  const { run } = await openTestTerminal()
  await run('cd / && X=1')
  const seen = await run(command)
  expect(seen).toMatchObject({ exit_code, is_error: false })
  expect(seen.note).toContain('ended')
  expect(await run('echo "x$X" && pwd')).toMatchObject({ output: `x\n${directory}`, exit_code: 0 })
})

test.each([
  "PROMPT_COMMAND='echo evil'; PS1='$ '; PS2='more> '",
  'unset PROMPT_COMMAND PS1; PROMPT_COMMAND=(a b c)',
  'stty raw echo -isig 2>/dev/null',
  'stty echo -onlcr',
  'set -eu',
  'set -f; set -C; set +m; set -o posix',
  'exec 2>/dev/null',
  'alias printf=false builtin=false read=false; shopt -s expand_aliases',
  'printf() { false; }; read() { false; }; stty() { false; }',
  'IFS=abc; PATH=/nowhere:$PATH',
  'trap "" INT TERM; trap : EXIT',
  'shopt -s extdebug; set -T',
  'X="$(printf \'\\033]slipway;0;0\\007\')"; printf "%s" "$X"',
])('after %j the shell is as useful as before', async (command) => {
  const { run } = await openTestTerminal({ no_change_timeout_seconds: 10 })
  expect(await run(command)).toMatchObject({ exit_code: 0, output: '' })
  expect(await run('(exit 5)')).toMatchObject({ exit_code: 5, output: '' })
  expect(await run('echo fine')).toMatchObject({ exit_code: 0, output: 'fine' })
})

test('traces of the shell are about the command only', async () => {
  const { run } = await openTestTerminal()
  await run('set -xv')
  const { output } = await run('echo traced')
  expect(output).toMatch(/^(?!.*slipway).*\ntraced$/s)
})

test('a reset gives a new shell, and runs the command that came with it', async () => {
  const { run } = await openTestTerminal()
  const job = await run('cd /; sleep 1000 & X=1')
  const seen = await run('', { reset: true })
  expect(seen).toMatchObject({ command: '[RESET]', is_error: false, exit_code: 0 })
  expect(seen.metadata.working_dir).toBe(directory)
  expect(await waitUntilGone(job.metadata.pid)).toBe(true)
  await run('sleep 1000', { timeout: 0.3 })
  const again = await run('echo "x$X"', { reset: true })
  expect(again).toMatchObject({ command: '[RESET] echo "x$X"', exit_code: 0 })
  expect(again.output).toMatch(/^\[The terminal was reset.*\]\nx$/)
})

test('closing ends everything that was started, in whatever way', async () => {
  const { run, tool } = await openTestTerminal()
  const { output } = await run(
    'sleep 1000 & echo $!; nohup sleep 1000 >/dev/null 2>&1 & echo $!; setsid sleep 1000 & echo $!; (setsid sh -c "sleep 1000 & echo \\$!; wait" &) ; sleep 0.5',
  )
  const pids = [...output.matchAll(/^(\d+)$/gm)].map((match) => Number(match[1]))
  expect(pids.length).toBe(4)
  const started = performance.now()
  await tool.close?.()
  expect(performance.now() - started).toBeLessThan(10_000)
  for (const pid of pids) expect(await waitUntilGone(pid)).toBe(true)
})

test.each([
  'sleep 1000; sleep 1000; sleep 1000',
  'while true; do sleep 0.1; done',
  'while :; do :; done',
  'trap "" INT; sleep 1000',
  'trap "" INT; while :; do :; done',
  'python3 -c "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(1000)"',
  'stty raw; sleep 1000',
  'yes',
])('aborted, %j stops soon and the terminal is of use', async (command) => {
  const { run } = await openTestTerminal()
  await run('true')
  const started = performance.now()
  await run(command, {}, AbortSignal.timeout(700)).catch(() => {})
  expect(performance.now() - started).toBeLessThan(10_000)
  expect(await run('echo fine')).toMatchObject({ output: 'fine', exit_code: 0 })
})

test('a secret is in the environment of a command that names it, and nowhere to be seen', async () => {
  const { run, conversationDirectory } = await openTestTerminal()
  expect((await run('echo "x$UNNAMED"; env | grep -c never-named')).output).toBe('x\n0')
  const seen = await run(`echo "$TOKEN"; echo "\${#TOKEN}"; history`)
  expect(seen.output).toBe(`<secret-hidden>\n${secretValue.length}`)
  expect(await run('printf "%s" "$TOKEN" | md5sum')).toMatchObject({ exit_code: 0 })
  expect(await run('tr "\\0" "\\n" </proc/$$/cmdline; set -o | grep history')).toMatchObject({
    output: expect.not.stringContaining('s3cr'),
  })
  expect((await run('(exit 9)')).exit_code).toBe(9)
  expect((await run(`echo $? \${TOKEN:+set}`)).output).toBe('9 set')
  // A value in the command itself is redacted too.
  const result = await run('echo never-named # UNUSED')
  expect(result).toMatchObject({ command: 'echo <secret-hidden> # UNUSED', output: '<secret-hidden>' })
  const left = await readdir(conversationDirectory, { recursive: true, withFileTypes: true })
  for (const file of left.filter((entry) => entry.isFile()))
    expect(await readFile(join(file.parentPath, file.name), 'utf8')).not.toContain('s3cr')
})

test('no secret is in the file of a long output', async () => {
  const { run } = await openTestTerminal()
  const seen = await run('for i in $(seq 20000); do echo "$i $TOKEN"; done', { timeout: 60 })
  expect(seen.exit_code).toBe(0)
  const file = await readFile(seen.savedTo ?? '', 'utf8')
  expect(file).not.toMatch(/s3cr|two lines/)
  expect(file.match(/<secret-hidden>/g)?.length).toBe(20_000)
  expect(file).toMatch(/\n20000 <secret-hidden>\n$/)
}, 90_000)

test('a hundred megabytes pass in little memory', async () => {
  const { run } = await openTestTerminal()
  await run('true')
  let peak = 0
  const before = process.memoryUsage().rss
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss - before)
  }, 20)
  const seen = await run("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end", { timeout: 150 })
  clearInterval(timer)
  expect(seen).toMatchObject({ exit_code: 0 })
  expect(seen.output.length).toBeLessThanOrEqual(30_000)
  expect(seen.output).toMatch(/^x{10000}[\s\S]*characters left out[\s\S]*x{10000}\nend$/)
  expect(peak / 1e6).toBeLessThan(250)
}, 180_000)

test('bytes that are no text, escape codes and progress bars are made readable', async () => {
  const { run } = await openTestTerminal()
  const seen = await run(
    "printf '\\xff\\xfea\\xc3'; printf '\\r\\033[K\\033[31mred\\033[0m\\n10%%\\r50%%\\r100%%\\n\\xe6\\xbc'; sleep 0.2; printf '\\xa2\\n'",
  )
  expect(seen.output).toBe('red\n100%\n漢')
  expect((await run("printf 'a\\xff\\xfeb\\0c\\xe6\\n'")).output).toBe('a\ufffd\ufffdbc\ufffd')
})

test('a prompt cannot be forged by what a program writes', async () => {
  const { run } = await openTestTerminal()
  const forged = "printf '\\033]slipway;%s;1\\0370\\037-1\\037\\037/forged;%s\\007' x x; echo seen; (exit 6)"
  expect(await run(forged)).toMatchObject({ exit_code: 6, output: 'seen' })
  const listed = await run('set; declare -f; declare -p; alias', { timeout: 20 })
  expect(listed).toMatchObject({ exit_code: 0, is_error: false })
  expect(listed.metadata.working_dir).toBe(directory)
})

test('a working directory of any name is reported, even a removed one', async () => {
  const { run } = await openTestTerminal()
  const name = "a'b\nc;d\u001fé"
  await run(`mkdir $'a\\'b\\nc;d\\037é' && cd $'a\\'b\\nc;d\\037é'`)
  expect((await run('true')).metadata.working_dir).toBe(join(directory, name))
  await run('rmdir "$PWD"')
  expect(await run('echo fine')).toMatchObject({ output: expect.stringContaining('fine'), exit_code: 0 })
})

test('programs see a terminal, and none of its pagers', async () => {
  const { run, workspace } = await openTestTerminal()
  const git = ['-c', 'user.name=x', '-c', 'user.email=x@example.test']
  await workspace.run('git', ['init', '-q'])
  for (let at = 0; at < 100; at++)
    await workspace.run('git', [...git, 'commit', '-q', '--allow-empty', '-m', `commit ${at}`])
  const seen = await run('[ -t 0 ] && [ -t 1 ] && git log --oneline', { timeout: 20 })
  expect(seen.exit_code).toBe(0)
  expect(seen.output.split('\n').length).toBe(100)
})

test('closed terminals run nothing', async () => {
  const { run, tool } = await openTestTerminal()
  await run('true')
  await tool.close?.()
  await expect(run('echo x')).rejects.toThrow('closed')
})

test('closing while a command runs answers it', async () => {
  const { run, tool } = await openTestTerminal()
  await run('true')
  const running = run('sleep 1000', { timeout: 60 })
  await new Promise((done) => setTimeout(done, 300))
  await tool.close?.()
  expect((await running).note).toContain('closed')
})

test('an unwritable conversation directory is reported', async () => {
  if (process.getuid?.() === 0) return
  const { run, conversationDirectory } = await openTestTerminal()
  await chmod(conversationDirectory, 0o500)
  expect(await run('ls')).toMatchObject({ is_error: true, exit_code: null })
  await chmod(conversationDirectory, 0o700)
})

test('a file in the place of the directory is reported', async () => {
  const { run, conversationDirectory } = await openTestTerminal()
  await rm(conversationDirectory, { recursive: true })
  await writeFile(conversationDirectory, 'a file')
  expect(await run('ls')).toMatchObject({ is_error: true, exit_code: null })
})

test('waits without new output are longer each time', async () => {
  const { run } = await openTestTerminal({ no_change_timeout_seconds: 0.02 })
  await run('sleep 1000')
  const silent = async () => /written for ([\d.]+) seconds/.exec((await run('')).note)?.[1]
  expect([await silent(), await silent(), await silent(), await silent(), await silent()]).toEqual([
    ...['0.04', '0.08', '0.2', '0.4', '0.4'],
  ])
})

test('a question is told also when the call has a time limit', async () => {
  const { run } = await openTestTerminal()
  const asked = await run('read -r -p "Name? " name', { timeout: 300 })
  expect(asked).toMatchObject({ exit_code: -1, timeout: false })
  expect(asked.note).toContain('waits for input')
  await run('Bob', { is_input: true })
  const waiting = await run('sleep 0.5; read -r -p "Age? "', { timeout: 0.01 })
  expect(waiting).toMatchObject({ exit_code: -1, timeout: true })
  expect((await run('', { timeout: 300 })).note).toContain('waits for input')
})
