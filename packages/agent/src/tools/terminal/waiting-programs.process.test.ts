import { execFileSync } from 'node:child_process'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, test, vi } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import { Workspace } from '../../workspace/workspace.ts'
import type { Tool } from '../core/tool.ts'
import { openTerminal } from './terminal.ts'

vi.setConfig({ testTimeout: 180_000 })

const env = { PATH: process.env.PATH ?? '', USER: 'somebody' }
let root: string
let workspace: Workspace
let tool: Tool
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'waiting-')))
  workspace = await Workspace.open({ directory: root, env: { ...env, HOME: root } })
  const context = { workspace, secrets: new Secrets(), directory: join(root, '.terminal') }
  // So long that a program which is not noticed fails its test.
  tool = (await openTerminal(context, { no_change_timeout_seconds: 100 })) as Tool
  return async () => {
    await tool.close?.()
    await workspace[Symbol.asyncDispose]()
    await rm(root, { recursive: true, force: true })
  }
})

function isInstalled(program: string): boolean {
  try {
    execFileSync('bash', ['-c', `command -v ${program}`], { env, stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

async function note(command: string): Promise<string> {
  const parsed = tool.parse({ command })
  if ('error' in parsed) throw new Error(parsed.error)
  const { content } = await tool.run(parsed.action, new AbortController().signal)
  return content.map((block) => ('text' in block ? block.text : '')).join('\n')
}

/**
 * What is not on every machine is shown by a program that asks in the same way: on /dev/tty, without echo.
 */
const asks = (prompt: string) =>
  `bash -c 'exec 3<>/dev/tty; stty -echo <&3; printf "%s" "${prompt}" >&3; IFS= read -r x <&3'`
const identity = 'git config user.name x; git config user.email x@example.test'

test.each<[program: string, command: string]>([
  ['read', 'read -r -p "Name? " name'],
  ['read', 'read -r -s -p "Password: " name'],
  ['read', 'select x in one two; do break; done'],
  ['cat', 'cat'],
  ['dash', `dash -c 'printf "Continue? "; read x'`],
  ['rm', 'touch a; rm -i a'],
  ['python3', `python3 -c 'input("Name? ")'`],
  ['python3', `python3 -c 'import getpass; getpass.getpass()'`],
  ['python3', 'python3 -q'],
  ['python3', 'echo "x = 1" > a.py; python3 -m pdb a.py'],
  [
    'node',
    `node -e "require('readline').createInterface({input:process.stdin,output:process.stdout}).question('? ',()=>{})"`,
  ],
  ['node', 'node -i'],
  ['npm', 'npm init --no-update-notifier'],
  ['perl', `perl -e 'print "Continue? "; my $x = <STDIN>'`],
  ['gdb', 'gdb -q -nx'],
  ['less', 'seq 1000 > a; TERM=xterm LESS= less a'],
  ['more', 'seq 1000 > a; TERM=xterm more a'],
  ['vi', 'TERM=xterm vi a'],
  ['ed', 'ed'],
  ['git', `git init -q; ${identity}; GIT_EDITOR='f() { cat; }; f' git commit --allow-empty`],
  ['git', `git init -q; ${identity}; echo a > a; git add a; echo b > a; git add -p`],
  ['vi', `git init -q; ${identity}; TERM=xterm GIT_EDITOR=vi git commit --allow-empty`],
  ['ssh-keygen', 'ssh-keygen'],
  ['ssh-keygen', 'ssh-keygen -q -N secret -f key; ssh-keygen -y -f key'],
  ['openssl', 'openssl passwd'],
  ['psql', 'psql -W -h 127.0.0.1 -p 1'],
  ['bc', 'bc -q'],
  ['sqlite3', 'sqlite3'],
  ['bash', asks('[sudo] password for somebody: ')],
  ['bash', asks('somebody@example.test password: ')],
  ['bash', asks('Are you sure you want to continue connecting (yes/no/[fingerprint])? ')],
  ['bash', asks('Enter password: ')],
])('%s that waits for input is noticed: %s', async (program, command) => {
  if (!isInstalled(program)) return
  expect(await note(command)).toContain('waits for input')
})

test.each([
  ['sleep', 'sleep 3; echo over'],
  [
    'a socket besides the terminal',
    `python3 -c 'import select, socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); p = select.poll(); p.register(0, select.POLLIN); p.register(s); p.poll(3000); print("over")'`,
  ],
  [
    'a pipe',
    `{ sleep 3; echo x; } | python3 -c 'import select, sys; select.select([sys.stdin], [], []); print("over")'`,
  ],
  [
    'poll',
    `python3 -c 'import select; p = select.poll(); p.register(0); p.unregister(0); p.poll(3000); print("over")'`,
  ],
])('a program that waits for something else is not taken for one: %s', async (_, command) => {
  if (!isInstalled('python3')) return
  const text = await note(command)
  expect(text).toContain('over')
  expect(text).not.toContain('waits for input')
})
