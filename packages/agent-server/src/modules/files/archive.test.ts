import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { exchangeWithLink } from '@slipway/shared/tool-files/testing'
import { expect, test, vi } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { type Archive, createPatch, createTarArchive } from './archive.ts'

const secret = 'canary-of-a-credential'
/** Of the directory that is archived. */
const name = 'my räpo'

function createWorkspace() {
  const directory = temporaryDirectory()
  const root = join(directory.path, 'my räpo')
  // The machine's directory of temporary files may be in a repository.
  const env = { PATH: process.env.PATH ?? '', HOME: directory.path, GIT_CEILING_DIRECTORIES: tmpdir() }
  mkdirSync(root)
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x', ...args], {
      cwd: root,
      env,
      stdio: 'pipe',
    }).toString()
  const write = (name: string, content: string | Buffer) => {
    mkdirSync(join(root, name, '..'), { recursive: true })
    writeFileSync(join(root, name), content)
  }
  return { path: directory.path, root, env, git, write, [Symbol.dispose]: () => directory[Symbol.dispose]() }
}

function createCommittedWorkspace() {
  const it = createWorkspace()
  it.git('init', '-q', '-b', 'main')
  it.write('kept.txt', 'one\n')
  it.write('gone.txt', 'gone\n')
  it.git('add', '-A')
  it.git('commit', '-qm', 'first')
  it.git('remote', 'add', 'origin', `https://user:${secret}@git.example/x.git`)
  return it
}

async function saveArchive({ chunks }: Archive, path: string): Promise<string> {
  const all: Buffer[] = []
  for await (const chunk of chunks) all.push(chunk)
  writeFileSync(path, Buffer.concat(all))
  return path
}

/** Names and contents of what a tar file has. */
function extractArchive(file: string, to: string): Record<string, string> {
  mkdirSync(to)
  execFileSync('tar', ['-xzf', file, '-C', to])
  const entries = readdirSync(to, { recursive: true, withFileTypes: true })
  const contents = entries.flatMap((entry) => {
    const path = join(entry.parentPath, entry.name)
    if (entry.isSymbolicLink()) return [[path.slice(to.length + 1), `-> ${readlinkSync(path)}`]]
    return entry.isFile() ? [[path.slice(to.length + 1), readFileSync(path, 'utf8')]] : []
  })
  return Object.fromEntries(contents)
}

const archiveOptions = (it: { root: string; env: Record<string, string> }) => ({
  path: it.root,
  dataDirectory: '/nonexistent/data',
  env: it.env,
  useDefaultExcludes: true,
  exclude: [] as string[],
  signal: new AbortController().signal,
})

test('a directory comes as a tar file, without credentials and without what can be made again', async () => {
  using it = createCommittedWorkspace()
  it.write('node_modules/a/index.js', 'x')
  it.write('deep/.venv/x', 'x')
  it.write('deep/übung [1].txt', 'deep')
  it.write('.git-credentials', secret)
  it.write('deep/.netrc', secret)
  it.write('big.bin', 'x')
  symlinkSync('kept.txt', join(it.root, 'link'))
  symlinkSync('/etc/hostname', join(it.root, 'outside'))
  const archive = await createTarArchive({ ...archiveOptions(it), exclude: ['*.bin', '/deep/nothing/'] })
  expect(archive.filename).toBe('my räpo.tar.gz')
  expect(archive.headers).toEqual({
    'x-archive-repo-remote': encodeURIComponent('https://****@git.example/x.git'),
    'x-archive-branch': 'main',
    'x-archive-head-commit': it.git('rev-parse', 'HEAD').trim(),
    'x-archive-repo-root': encodeURIComponent(it.root),
  })
  const files = extractArchive(await saveArchive(archive, join(it.path, 'a.tar.gz')), join(it.path, 'out'))
  const { [`${name}/archive_manifest.json`]: manifest = '', ...packed } = files
  expect(packed).toEqual({
    [`${name}/kept.txt`]: 'one\n',
    [`${name}/gone.txt`]: 'gone\n',
    [`${name}/deep/übung [1].txt`]: 'deep',
  })
  expect(JSON.parse(manifest)).toMatchObject({
    ...{ format: 'tar.gz', source: name, file_count: 3 },
    ...{ total_bytes: Buffer.byteLength('one\ngone\ndeep'), use_default_excludes: true },
  })
  expect(JSON.parse(manifest).excludes.slice(0, 1)).toEqual(['.git'])
  expect(JSON.parse(manifest).excludes.slice(-2)).toEqual(['*.bin', 'deep/nothing'])
  expect(JSON.stringify(files)).not.toContain(secret)
  const all = await createTarArchive({ ...archiveOptions(it), useDefaultExcludes: false })
  const more = extractArchive(await saveArchive(all, join(it.path, 'b.tar.gz')), join(it.path, 'more'))
  const others = ['node_modules/a/index.js', 'big.bin', '.git/HEAD'].map((path) => `${name}/${path}`)
  expect(Object.keys(more)).toEqual(expect.arrayContaining(others))
  expect(Object.keys(more).filter((path) => path.includes('.git/logs/'))).toEqual([])
  expect(JSON.stringify(more)).not.toContain(secret)
})

test('a directory without a repository comes as a tar file too, an empty one and one with an odd name', async () => {
  using it = createWorkspace()
  const long = 'l'.repeat(150)
  it.write('-rf/x', 'x')
  it.write(`-rf/${long}`, 'long')
  const archive = await createTarArchive({ ...archiveOptions(it), path: join(it.root, '-rf') })
  expect(archive.headers).toEqual({})
  expect(extractArchive(await saveArchive(archive, join(it.path, 'a')), join(it.path, 'out'))).toMatchObject({
    '-rf/x': 'x',
    [`-rf/${long}`]: 'long',
  })
  mkdirSync(join(it.root, 'empty'))
  const empty = await createTarArchive({ ...archiveOptions(it), path: join(it.root, 'empty') })
  const none = extractArchive(await saveArchive(empty, join(it.path, 'b')), join(it.path, 'none'))
  expect(Object.keys(none)).toEqual(['empty/archive_manifest.json'])
})

test('a patch has changed, new, removed and binary files, and leaves the repository as it was', async () => {
  using it = createCommittedWorkspace()
  it.write('kept.txt', 'two\n')
  execFileSync('rm', [join(it.root, 'gone.txt')])
  it.write('new/übung.txt', 'new\n')
  it.write('blob', Buffer.from([0, 255, 1, 254]))
  it.write('latin.txt', Buffer.from('caf\xe9\n', 'latin1'))
  it.write('.gitignore', 'ignored\n')
  it.write('ignored', 'x')
  it.write('.git-credentials', secret)
  it.write('node_modules/x.js', 'x')
  it.write('skip.bin', 'x')
  const before = it.git('status', '--porcelain=v2', '-z')
  const archive = await createPatch({ ...archiveOptions(it), exclude: ['*.bin'], baseRef: 'HEAD' })
  expect(archive.filename).toBe('my räpo.patch')
  expect(archive.headers).toMatchObject({
    'x-archive-base-commit': it.git('rev-parse', 'HEAD').trim(),
    'x-archive-branch': 'main',
  })
  expect(it.git('status', '--porcelain=v2', '-z')).toBe(before)
  const patch = await saveArchive(archive, join(it.path, 'a.patch'))
  expect(readFileSync(patch, 'utf8')).not.toMatch(new RegExp(`${secret}|node_modules|skip.bin|ignored"`))
  const clone = join(it.path, 'clone')
  execFileSync('git', ['clone', '-q', it.root, clone], { env: it.env })
  execFileSync('git', ['apply', '--binary', patch], { cwd: clone, env: it.env })
  expect(readdirSync(clone).sort()).toEqual(['.git', '.gitignore', 'blob', 'kept.txt', 'latin.txt', 'new'])
  for (const name of ['kept.txt', 'new/übung.txt', 'blob', 'latin.txt'])
    expect(readFileSync(join(clone, name))).toEqual(readFileSync(join(it.root, name)))
})

test('a patch against another commit, an empty one, and one of a repository without commits', async () => {
  using it = createCommittedWorkspace()
  const nothing = await createPatch({ ...archiveOptions(it), baseRef: 'HEAD' })
  expect(nothing.headers['x-archive-base-ref']).toBe('HEAD')
  expect(readFileSync(await saveArchive(nothing, join(it.path, 'a')), 'utf8')).toBe('')
  it.git('rm', '-q', 'gone.txt')
  it.git('commit', '-qm', 'second')
  const patch = await createPatch({ ...archiveOptions(it), baseRef: 'HEAD~1' })
  expect(readFileSync(await saveArchive(patch, join(it.path, 'b')), 'utf8')).toContain('deleted file mode')
  using fresh = createWorkspace()
  fresh.git('init', '-q')
  fresh.write('a.txt', 'a\n')
  const first = await createPatch({ ...archiveOptions(fresh), baseRef: undefined })
  expect(readFileSync(await saveArchive(first, join(fresh.path, 'c')), 'utf8')).toContain('+a')
})

test('what the server keeps for itself is in no archive of a directory around it', async () => {
  using it = createCommittedWorkspace()
  for (const data of ['.slip[w]*y', 'deep/data']) {
    it.write(`${data}/secret.key`, secret)
    it.write(`${data}/log.db`, 'log')
    it.write(`${data}-beside/plain.txt`, 'plain')
    const dataDirectory = join(it.root, data)
    const file = join(it.path, 'x')
    const out = join(it.path, data.replace('/', '-'))
    const files = extractArchive(
      await saveArchive(await createTarArchive({ ...archiveOptions(it), dataDirectory }), file),
      out,
    )
    expect(Object.keys(files)).toContain(`${name}/${data}-beside/plain.txt`)
    expect(JSON.stringify(files)).not.toContain(secret)
    const patch = await createPatch({ ...archiveOptions(it), dataDirectory, baseRef: undefined })
    const text = readFileSync(await saveArchive(patch, file), 'utf8')
    expect(text).toContain('plain')
    expect(text).not.toContain(secret)
    const ofData = { ...archiveOptions(it), path: dataDirectory, dataDirectory }
    await expect(createTarArchive(ofData)).rejects.toMatchObject({ code: 'forbidden' })
    execFileSync('rm', ['-r', dataDirectory])
  }
})

test('what cannot be archived is refused in words', async () => {
  using it = createCommittedWorkspace()
  const problem = (promise: Promise<unknown>) =>
    promise.then(
      () => 'done',
      ({ code, message }) => `${code}: ${message}`,
    )
  const patch = (more: object) => problem(createPatch({ ...archiveOptions(it), baseRef: undefined, ...more }))
  expect(await patch({ baseRef: '--output=/x' })).toBe("bad_request: base_ref must not start with '-'")
  expect(await patch({ baseRef: 'nowhere' })).toBe(
    'bad_request: The base_ref could not be resolved to a commit',
  )
  it.git('clone', '-q', '.', '../second')
  expect(await patch({ path: it.path })).toMatch(/^bad_request: Not a git repository/)
  for (const make of [
    (path: string) => patch({ path }),
    (path: string) => problem(createTarArchive({ ...archiveOptions(it), path })),
  ]) {
    expect(await make('relative')).toBe('bad_request: Path must be absolute')
    expect(await make(join(it.root, 'missing'))).toMatch(/^not_found/)
    expect(await make(join(it.root, 'kept.txt'))).toBe('bad_request: Path is not a directory')
    expect(await make('/a\0b')).toMatch(/^bad_request/)
  }
  expect(await patch({ exclude: ['a', 'b\0'] })).toMatch(/^invalid/)
  expect(await problem(createTarArchive({ ...archiveOptions(it), exclude: ['b\0'] }))).toMatch(/^invalid/)
})

test('long names, sizes, modes and times come through, and what has gone meanwhile is left out', async () => {
  using it = createWorkspace()
  const long = `${'x'.repeat(150)}/${'ö'.repeat(100)}`
  it.write(long, 'long')
  it.write('exact', Buffer.alloc(1024, 1))
  it.write('large', Buffer.alloc(700_001, 2))
  it.write('run.sh', 'x')
  chmodSync(join(it.root, 'run.sh'), 0o755)
  utimesSync(join(it.root, 'run.sh'), 1_000_000, 1_000_000)
  it.write('gone', 'x')
  mkdirSync(join(it.root, 'empty'))
  const archive = await createTarArchive(archiveOptions(it))
  rmSync(join(it.root, 'gone'))
  const file = await saveArchive(archive, join(it.path, 'a'))
  const files = extractArchive(file, join(it.path, 'out'))
  expect(Object.keys(files).sort()).toEqual(
    [long, 'archive_manifest.json', 'exact', 'large', 'run.sh'].map((path) => `${name}/${path}`).sort(),
  )
  expect(files[`${name}/large`]).toBe('\x02'.repeat(700_001))
  const { mode, mtimeMs } = statSync(join(it.path, 'out', name, 'run.sh'))
  expect([mode & 0o777, mtimeMs]).toEqual([0o755, 1_000_000_000])
  expect(statSync(join(it.path, 'out', name, 'empty')).isDirectory()).toBe(true)
})

test.skipIf(process.platform !== 'linux')(
  'a directory that is exchanged with a link in a loop leads no archive outside',
  async () => {
    using it = createWorkspace()
    it.write('folder/f', 'x')
    const outside = join(it.path, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'f'), secret)
    let withFile = 0
    await using _ = await exchangeWithLink(join(it.root, 'folder'), outside)
    for (let time = 0; time < 100; time++) {
      const { chunks } = await createTarArchive(archiveOptions(it))
      const bytes = gunzipSync(Buffer.concat(await Array.fromAsync(chunks)))
      expect(bytes.includes(secret)).toBe(false)
      if (bytes.includes('/folder/f')) withFile++
    }
    expect(withFile).toBeGreaterThan(0)
  },
)

test.skipIf(process.platform !== 'linux')(
  'who leaves early, and an abort, close the file that is read',
  async () => {
    using it = createWorkspace()
    it.write('large', randomBytes(20_000_000))
    const open = () => readdirSync('/proc/self/fd').filter((fd) => linkOf(fd).startsWith(it.root))
    const archive = await createTarArchive(archiveOptions(it))
    for await (const chunk of archive.chunks) {
      expect(chunk.length).toBeGreaterThan(0)
      break
    }
    await vi.waitUntil(() => open().length === 0)
    const controller = new AbortController()
    const other = await createTarArchive({ ...archiveOptions(it), signal: controller.signal })
    await expect(
      (async () => {
        for await (const _ of other.chunks) controller.abort()
      })(),
    ).rejects.toThrow()
    await vi.waitUntil(() => open().length === 0)
  },
)

function linkOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`)
  } catch {
    return ''
  }
}
