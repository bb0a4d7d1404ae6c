import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { SandboxServerFixture } from '../testing/sandbox-server-fixture.ts'

// Each command is its own process, each sandbox several, and the machine may have others to run.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 120_000 })

let fixture: SandboxServerFixture
let project: string

const homeOptions = (cwd: string) => ({ cwd, env: { HOME: fixture.directory } })
const runCli = (args: readonly string[], cwd = project) => fixture.runCli(args, homeOptions(cwd))

function git(...args: string[]): string {
  const env = { PATH: process.env.PATH, HOME: fixture.directory, GIT_CONFIG_NOSYSTEM: '1' }
  return execFileSync('git', ['-C', project, ...args], { encoding: 'utf8', env, stdio: 'pipe' }).trimEnd()
}

async function setScript(...commands: string[]): Promise<void> {
  await fixture.setScript(
    ...commands.map((command) => ({
      text: 'I work.',
      tool_calls: [{ name: 'terminal', arguments: { command } }],
    })),
    { text: 'Done.' },
  )
}

/** Starts a conversation on the project and answers its id. */
async function startHere(...commands: string[]): Promise<string> {
  await setScript(...commands)
  const { stdout, stderr, code } = await runCli([
    'app',
    'start',
    '--here',
    'Work',
    '--title',
    'My work',
    '--follow',
  ])
  const [, id = ''] = /Conversation (\S+) in sandbox/.exec(stderr) ?? []
  expect({ code, stdout, stderr }).toMatchObject({ code: 0, stdout: expect.stringContaining('Done.') })
  expect(stderr).toContain(`slipway app diff ${id.slice(0, 8)}`)
  return id
}

beforeAll(async () => {
  fixture = await SandboxServerFixture.start()
})

/** A repository with a commit, uncommitted changes and ignored files. */
beforeEach(async () => {
  project = await mkdtemp(join(fixture.directory, 'project-'))
  await mkdir(join(project, 'src'))
  await writeFile(join(project, '.gitignore'), '*.log\n')
  await writeFile(join(project, 'src/a.txt'), 'one\ntwo\nthree\n')
  await writeFile(join(project, 'run.sh'), '#!/bin/sh\necho ok\n')
  await chmod(join(project, 'run.sh'), 0o755)
  await symlink('src/a.txt', join(project, 'link'))
  git('init', '--quiet', '--initial-branch=trunk')
  git('config', 'user.name', 'Ann')
  git('config', 'user.email', 'ann@example.org')
  git('add', '--all')
  git('commit', '--quiet', '--message', 'First')
  await writeFile(join(project, 'src/a.txt'), 'one\ntwo\nthree, changed by Ann\n')
  await writeFile(join(project, 'new file.txt'), 'not added yet\n')
  await writeFile(join(project, 'debug.log'), 'ignored\n')
})

afterAll(async () => await fixture.stop())

test('the folder is copied with history and uncommitted changes, its work shown and brought back', async () => {
  const before = git('status', '--porcelain=v2', '--branch')
  const id = await startHere(
    'git status --porcelain; git log --oneline; git branch --show-current; cat debug.log; ls -l run.sh link',
    `printf 'zero\\none\\ntwo\\nthree, changed by Ann\\n' > src/a.txt; { printf '\\0'; head -c 299 /dev/urandom; } > picture.bin; rm run.sh; echo x > other.log`,
    'git add --all; git -c user.name=agent -c user.email=a@b commit --quiet --message Mine; echo late > late.txt',
  )
  // Nothing happened here.
  expect(git('status', '--porcelain=v2', '--branch')).toBe(before)
  expect(git('for-each-ref', '--format=%(refname)')).toBe('refs/heads/trunk')

  const { stdout: log } = await runCli(['app', 'tail', id, '--until-idle', '--json'])
  const seen = log.replaceAll('\\n', '\n')
  for (const words of [' M src/a.txt', 'new file.txt', 'First', 'trunk', '-rwxr-xr-x', 'link -> src/a.txt'])
    expect(seen).toContain(words)
  expect(seen).toContain('debug.log: No such file')

  const stat = await runCli(['app', 'diff', id.slice(0, 8), '--stat'])
  expect(stat.stdout.trimEnd().split('\n').toSorted()).toEqual([
    '+0 -2 run.sh',
    '+1 -0 late.txt',
    '+1 -0 src/a.txt',
    'binary picture.bin',
  ])
  const diff = await runCli(['app', 'diff', id])
  expect(diff.stdout).toContain('+zero\n')
  expect(diff.stdout).toContain('GIT binary patch')
  expect(diff.stdout).not.toContain('other.log')

  // To a branch: the working tree does not change.
  const branched = await runCli(['app', 'apply', id, '--branch', 'agent/work'])
  expect(branched).toMatchObject({ code: 0, stdout: expect.stringContaining('on the branch agent/work') })
  expect(branched.stdout).toContain('  +1 -0 src/a.txt\n')
  expect(branched.stdout).toContain('git cherry-pick agent/work\n')
  expect(git('status', '--porcelain=v2', '--branch')).toBe(before)
  expect(git('log', '--format=%s|%an', 'agent/work').split('\n')).toEqual([
    'My work|Ann',
    'Uncommitted changes at the start of the work|Ann',
    'First|Ann',
  ])
  expect(git('show', 'agent/work:src/a.txt')).toBe('zero\none\ntwo\nthree, changed by Ann')
  const again = await runCli(['app', 'apply', id, '--branch', 'agent/work'])
  expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('agent/work already') })

  // To the working tree, where something else has changed meanwhile.
  await writeFile(join(project, 'new file.txt'), 'changed meanwhile\n')
  const applied = await runCli(['app', 'apply', id])
  expect(applied).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('4 files changed in your working tree'),
  })
  expect(readFileSync(join(project, 'src/a.txt'), 'utf8')).toBe('zero\none\ntwo\nthree, changed by Ann\n')
  expect(statSync(join(project, 'picture.bin')).size).toBe(300)
  expect(existsSync(join(project, 'run.sh'))).toBe(false)
  expect(readFileSync(join(project, 'new file.txt'), 'utf8')).toBe('changed meanwhile\n')
  expect(git('diff', '--cached', '--name-only')).toBe('')

  // A second time there is nothing to do.
  const status = git('status', '--porcelain')
  expect(await runCli(['app', 'apply', id])).toMatchObject({
    code: 0,
    stdout: 'Already applied: nothing was changed.\n',
  })
  expect(git('status', '--porcelain')).toBe(status)

  // As the message advises: the work alone, after a commit of what was uncommitted.
  git('stash', '--include-untracked')
  git('checkout', '--quiet', '-b', 'mine', 'agent/work~1')
  git('cherry-pick', 'agent/work')
  git('checkout', '--quiet', 'trunk')
  git('stash', 'pop')

  // Where the files are others meanwhile, nothing is half done.
  await writeFile(join(project, 'src/a.txt'), 'other\n')
  const conflict = await runCli(['app', 'apply', id])
  expect(conflict.code).toBe(1)
  expect(conflict.stderr).toContain('nothing was changed. In conflict:\n')
  expect(conflict.stderr).toContain('  src/a.txt')
  expect(conflict.stderr).toContain('--branch NAME')
  expect(git('status', '--porcelain')).toBe(status)

  await runCli(['app', 'rm', id])
})

test('a repository without commits is copied, and its work comes back to a branch', async () => {
  await rm(join(project, '.git'), { recursive: true })
  git('init', '--quiet', '--initial-branch=main')
  git('config', 'user.name', 'Ann')
  git('config', 'user.email', 'ann@example.org')
  const id = await startHere('cat src/a.txt && echo more >> src/a.txt; echo ls > .envrc')
  expect((await runCli(['app', 'diff', id])).stdout).toContain('+more\n')
  const branched = await runCli(['app', 'apply', id, '--branch', 'work', '--json'])
  expect(branched.code).toBe(0)
  expect(JSON.parse(branched.stdout)).toMatchObject({
    files: ['.envrc', 'src/a.txt'],
    self_running_files: ['.envrc'],
    branch: 'work',
  })
  expect(git('show', 'work:src/a.txt')).toContain('changed by Ann\nmore')
  const inOther = await mkdtemp(join(fixture.directory, 'plain-'))
  expect(await runCli(['app', 'apply', id], inOther)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('is in no git working tree. Make one with: git init'),
  })
  await runCli(['app', 'rm', id])
})

test('what cannot work is refused before a sandbox is made, and an interrupted start leaves none', async () => {
  const sandboxes = async () => (await fixture.client.call('searchSandboxes', { query: {} })).items.length
  const count = await sandboxes()
  const plain = await mkdtemp(join(fixture.directory, 'plain-'))
  const none = await runCli(['app', 'start', '--here', 'x'], plain)
  expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining('git init') })
  expect(existsSync(join(plain, '.git'))).toBe(false)
  const both = await runCli(['app', 'start', '--here', '--repository', 'a/b', 'x'])
  expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('--here and --repository') })
  const child = fixture.spawnCli(['app', 'start', '--here', 'x'], homeOptions(project))
  for await (const chunk of child.stderr.iterator({ destroyOnReturn: false }))
    if (String(chunk).includes('Copies ')) break
  const end = new Promise((resolve) => child.once('close', resolve))
  child.kill('SIGINT')
  expect(await end).toBe(1)
  await vi.waitFor(async () => expect(await sandboxes()).toBe(count), { timeout: 30_000, interval: 500 })
})

test('a run that failed does not say how to bring its work back', async () => {
  await fixture.setScript({ error: { code: 'LLMAuthenticationError', detail: 'no key' } })
  const { stderr, code } = await runCli(['app', 'start', '--here', 'Work', '--follow'])
  expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining('error') })
  expect(stderr).not.toContain('slipway app diff')
})

test('a conversation without a copied folder has no diff', async () => {
  await setScript('echo hi')
  const { stderr } = await runCli(['app', 'start', 'Work', '--follow'])
  const [, id = ''] = /Conversation (\S+) in sandbox/.exec(stderr) ?? []
  const diff = await runCli(['app', 'diff', id])
  expect(diff).toMatchObject({ code: 1, stderr: expect.stringContaining('slipway app start --here TASK') })
  const { items } = await fixture.client.call('searchAppConversations', { query: {} })
  await runCli(['sandbox', 'pause', items.find((one) => one.id === id)?.sandbox_id ?? ''])
  const paused = await runCli(['app', 'apply', id])
  expect(paused).toMatchObject({ code: 1, stderr: expect.stringContaining('slipway sandbox resume') })
  await runCli(['app', 'rm', id])
})
