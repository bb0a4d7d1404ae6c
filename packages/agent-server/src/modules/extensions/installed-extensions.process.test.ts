import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cp, readdir, readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { extensionReaders } from '@slipway/agent'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { InstalledExtensions } from './installed-extensions.ts'

const never = new AbortController().signal

/** A directory of skills that are installed, and another for their sources. */
function createDirectories() {
  const directory = temporaryDirectory()
  onTestFinished(() => directory[Symbol.dispose]())
  const data = join(directory.path, 'data')
  return { data, sources: join(directory.path, 'sources'), open: () => openInstalled(data) }
}

function openInstalled(directory: string): InstalledExtensions {
  return new InstalledExtensions({
    directory,
    kind: 'skill',
    environment: { PATH: process.env.PATH ?? '', HOME: '/nonexistent' },
    describe: async (folder) => await (await extensionReaders()).describeSkill(folder),
  })
}

function writeFileAt(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

const text = (name: string, more = '') =>
  `---\nname: ${name}\ndescription: About ${name}.\n${more}---\nDo it.\n`
const installRequest = (
  source: string,
  more: { ref?: string; repo_path?: string; force?: boolean } = {},
) => ({
  source,
  ref: more.ref,
  repo_path: more.repo_path,
  force: more.force ?? false,
})

function git(directory: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@t.test', '-c', 'init.defaultBranch=main']
  return execFileSync('git', [...identity, ...args], { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] })
    .toString()
    .trim()
}

/** The folders that hold something, those that the index does not name too. */
async function listTrees(data: string): Promise<string[]> {
  return (await readdir(data)).filter((name) => name !== 'installed.json')
}

test('a skill in a directory is installed, shown, disabled and removed', async () => {
  const { data, sources, open } = createDirectories()
  writeFileAt(join(sources, 'pdf/SKILL.md'), text('pdf', 'metadata:\n  version: "2.1"\n'))
  writeFileAt(join(sources, 'pdf/scripts/run.sh'), 'true')
  const installed = open()
  const shown = await installed.install(installRequest(join(sources, 'pdf')), never)
  expect(shown).toEqual({
    name: 'pdf',
    version: '2.1',
    description: 'About pdf.',
    enabled: true,
    source: join(sources, 'pdf'),
    repo_path: null,
    resolved_ref: null,
    installed_at: expect.stringMatching(/^\d{4}-.*Z$/),
    install_path: expect.stringMatching(/\/pdf$/),
  })
  expect(await readFile(join(shown.install_path, 'scripts/run.sh'), 'utf8')).toBe('true')
  await installed.setEnabled('pdf', false)
  expect(await open().list()).toEqual([{ ...shown, enabled: false }])
  expect(await open().get('pdf')).toEqual({ ...shown, enabled: false })
  for (const name of ['other', '__proto__', 'constructor', '../pdf', '']) {
    await expect(installed.get(name)).rejects.toMatchObject({ code: 'not_found' })
    await expect(installed.setEnabled(name, true)).rejects.toMatchObject({ code: 'not_found' })
    await expect(installed.remove(name)).rejects.toMatchObject({ code: 'not_found' })
    await expect(installed.refresh(name, never)).rejects.toMatchObject({ code: 'not_found' })
  }
  await installed.remove('pdf')
  expect(await open().list()).toEqual([])
  expect(await listTrees(data)).toEqual([])
})

test('a skill in a repository is refreshed at its ref, and a failed refresh changes nothing', async () => {
  const { data, sources, open } = createDirectories()
  writeFileAt(join(sources, 'skills/a/SKILL.md'), text('a', 'version: 1\n'))
  git(sources, 'init', '-q')
  git(sources, 'add', '-A')
  git(sources, 'commit', '-q', '-m', 'one')
  const first = git(sources, 'rev-parse', 'HEAD')
  const installed = open()
  const asked = installRequest(`file://${sources}`, { ref: 'main', repo_path: 'skills/a' })
  expect(await installed.install(asked, never)).toMatchObject({
    name: 'a',
    version: '1',
    resolved_ref: first,
    repo_path: 'skills/a',
    source: `file://${sources}`,
  })
  await installed.setEnabled('a', false)
  writeFileAt(join(sources, 'skills/a/SKILL.md'), text('a', 'version: 2\n'))
  git(sources, 'commit', '-q', '-a', '-m', 'two')
  const second = git(sources, 'rev-parse', 'HEAD')
  const old = await installed.get('a')
  expect(await installed.refresh('a', never)).toMatchObject({
    version: '2',
    resolved_ref: second,
    enabled: false,
  })
  expect(existsSync(old.install_path)).toBe(true)
  writeFileAt(join(sources, 'skills/a/SKILL.md'), text('b'))
  git(sources, 'commit', '-q', '-a', '-m', 'three')
  await expect(installed.refresh('a', never)).rejects.toMatchObject({ code: 'bad_request' })
  await cp(join(sources, '.git'), join(sources, 'away'), { recursive: true })
  execFileSync('rm', ['-rf', join(sources, '.git')])
  await expect(installed.refresh('a', never)).rejects.toMatchObject({ code: 'bad_request' })
  const stored = await installed.get('a')
  expect(stored).toMatchObject({ version: '2', resolved_ref: second })
  expect(await readFile(join(stored.install_path, 'SKILL.md'), 'utf8')).toContain('version: 2')
  expect(await listTrees(data)).toHaveLength(2)
  const later = open()
  writeFileAt(join(sources, 'skills/b/SKILL.md'), text('b'))
  await later.install(installRequest(join(sources, 'skills/b')), never)
  expect(await listTrees(data)).toHaveLength(2)
  expect((await later.list()).map(({ name }) => name)).toEqual(['a', 'b'])
})

test('an installed skill is replaced only with force, and one of concurrent installations wins', async () => {
  const { data, sources, open } = createDirectories()
  writeFileAt(join(sources, 'a/SKILL.md'), text('a', 'version: old\n'))
  const installed = open()
  const results = await Promise.allSettled(
    Array.from({ length: 6 }, () => installed.install(installRequest(join(sources, 'a')), never)),
  )
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  for (const result of results)
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'conflict' })
  expect(await listTrees(data)).toHaveLength(1)
  writeFileAt(join(sources, 'a/SKILL.md'), text('a', 'version: new\n'))
  expect(await installed.install(installRequest(join(sources, 'a'), { force: true }), never)).toMatchObject({
    version: 'new',
  })
})

test.each([
  ['relative', 'bad_request'],
  ['ext::sh -c id', 'bad_request'],
  ['/nothing/here', 'bad_request'],
  ['EMPTY', 'invalid'],
  ['BADNAME', 'invalid'],
  ['BROKEN', 'invalid'],
  ['OTHER', 'invalid'],
])('the source %s is refused, and nothing is left', async (source, code) => {
  const { data, sources, open } = createDirectories()
  mkdirSync(join(sources, 'EMPTY'), { recursive: true })
  writeFileAt(join(sources, 'BADNAME/SKILL.md'), text('../x'))
  writeFileAt(join(sources, 'OTHER/SKILL.md'), text('another'))
  writeFileAt(join(sources, 'BROKEN/SKILL.md'), '---\nname: [\n---\n')
  const path = /^[A-Z]/.test(source) ? join(sources, source) : source
  await expect(open().install(installRequest(path), never)).rejects.toMatchObject({ code })
  expect(await listTrees(data).catch(() => [])).toEqual([])
})

test('a skill without a name gets that of its folder', async () => {
  const { sources, open } = createDirectories()
  writeFileAt(join(sources, 'no-name/SKILL.md'), '---\ndescription: x\n---\nDo it.\n')
  expect(await open().install(installRequest(join(sources, 'no-name')), never)).toMatchObject({
    name: 'no-name',
  })
})

test('a skill at the root of a repository has its own name', async () => {
  const { sources, open } = createDirectories()
  writeFileAt(join(sources, 'SKILL.md'), text('own-name'))
  git(sources, 'init', '-q')
  git(sources, 'add', '-A')
  git(sources, 'commit', '-q', '-m', 'one')
  const request = installRequest(`file://${sources}`)
  expect(await open().install(request, never)).toMatchObject({ name: 'own-name' })
})

test('credentials in a URL are in no file and no error', async () => {
  const { data, open } = createDirectories()
  const source = 'https://user:s3cret-canary@127.0.0.1:1/skill.git'
  const error: unknown = await open()
    .install(installRequest(source), never)
    .catch((error: unknown) => error)
  expect(error).toMatchObject({ code: 'bad_request' })
  expect(String(error)).not.toContain('s3cret')
  expect(await listTrees(data).catch(() => [])).toEqual([])
})

test('a damaged index is a conflict and is never overwritten', async () => {
  const { data, sources, open } = createDirectories()
  writeFileAt(join(data, 'installed.json'), '{"broken')
  writeFileAt(join(sources, 'a/SKILL.md'), text('a'))
  await expect(open().list()).rejects.toMatchObject({ code: 'conflict' })
  await expect(open().install(installRequest(join(sources, 'a')), never)).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(readFileSync(join(data, 'installed.json'), 'utf8')).toBe('{"broken')
})

test('after a kill at any moment the old or the new version is complete, and leftovers are removed', async () => {
  const { data, sources, open } = createDirectories()
  const script = join(dirname(data), 'install.mjs')
  writeFileAt(
    script,
    `import { InstalledExtensions } from ${JSON.stringify(resolve(import.meta.dirname, 'installed-extensions.ts'))}
import { extensionReaders } from ${JSON.stringify(import.meta.resolve('@slipway/agent'))}
const [, , directory, source] = process.argv
const installed = new InstalledExtensions({ directory, kind: 'skill', environment: { PATH: process.env.PATH, HOME: '/nonexistent' },
  describe: async (folder) => await (await extensionReaders()).describeSkill(folder) })
console.log('ready')
for (;;) await installed.install({ source, force: true }, new AbortController().signal)
`,
  )
  const versions = 3
  for (let version = 0; version < versions; version++) {
    const source = join(sources, `v${version}/a`)
    writeFileAt(join(source, 'SKILL.md'), text('a', `version: v${version}\n`))
    for (let file = 0; file < 20; file++) writeFileAt(join(source, `f${file}`), `v${version}`.repeat(100))
  }
  for (let round = 0; round < 6; round++) {
    const child = spawn(process.execPath, [script, data, join(sources, `v${round % versions}/a`)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(child.stdout, 'data')
    while (!existsSync(join(data, 'installed.json'))) await sleep(5)
    await sleep(round * 37)
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
    const found = await open().list()
    expect(found).toHaveLength(1)
    for (const { version, install_path } of found) {
      expect(readdirSync(install_path).length).toBe(21)
      for (const file of readdirSync(install_path)) {
        const content = readFileSync(join(install_path, file), 'utf8')
        expect(content).toContain(version)
        if (file !== 'SKILL.md') expect(content).toBe(version.repeat(100))
      }
    }
  }
  const last = open()
  await last.install(installRequest(join(sources, 'v0/a'), { force: true }), never)
  expect(await last.list()).toHaveLength(1)
  expect((await listTrees(data)).length).toBeLessThanOrEqual(2)
}, 120_000)
