import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { fetchSource } from './fetch-source.ts'
import { FileTreeWriter, InvalidTreeError, treeLimits } from './file-tree.ts'
import { parseSource } from './source.ts'

const neverAborted = new AbortController().signal
let base = ''
let homeDirectory = ''

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'slipway-fetch-'))
  homeDirectory = join(base, 'home')
  await mkdir(homeDirectory)
  onTestFinished(async () => await rm(base, { recursive: true, force: true }))
})

const environment = () => ({ PATH: process.env.PATH ?? '', HOME: homeDirectory })

function git(directory: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@t.test', '-c', 'init.defaultBranch=main']
  return execFileSync('git', [...identity, ...args], {
    cwd: directory,
    env: { ...environment(), GIT_CONFIG_NOSYSTEM: '1' },
    stdio: ['pipe', 'pipe', 'pipe'],
  }).toString()
}

async function write(path: string, text: string | Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, text)
}

/** A repository with files in one commit. */
async function repository(files: Readonly<Record<string, string>>): Promise<string> {
  const directory = await mkdtemp(join(base, 'repository-'))
  git(directory, 'init', '-q')
  for (const [path, text] of Object.entries(files)) await write(join(directory, path), text)
  git(directory, 'add', '-A')
  git(directory, 'commit', '-q', '--allow-empty', '-m', 'x')
  return directory
}

/** A tree object with any names, past all checks of git. */
function writeRawTree(
  directory: string,
  entries: readonly (readonly [mode: string, name: string, id: string])[],
): string {
  const parts = entries.map(([mode, name, id]) =>
    Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]),
  )
  return execFileSync('git', ['hash-object', '-t', 'tree', '-w', '--stdin', '--literally'], {
    cwd: directory,
    input: Buffer.concat(parts),
  })
    .toString()
    .trim()
}

function setMainTree(directory: string, tree: string): void {
  git(directory, 'update-ref', 'refs/heads/main', git(directory, 'commit-tree', tree, '-m', 'x').trim())
}

function writeBlob(directory: string, text: string): string {
  return execFileSync('git', ['hash-object', '-w', '--stdin'], { cwd: directory, input: text })
    .toString()
    .trim()
}

async function fetchTestSource(
  source: string,
  more: { ref?: string; repo_path?: string; env?: Readonly<Record<string, string>> } = {},
  signal = neverAborted,
) {
  const read = parseSource({ source, ref: more.ref, repo_path: more.repo_path })
  if ('issue' in read) throw new Error(read.issue)
  const into = join(base, 'fetched', 'tree')
  return {
    into,
    result: await fetchSource(read, { into, environment: { ...environment(), ...more.env } }, signal),
  }
}

async function expectIssue(source: string, issue: RegExp, more: { ref?: string; repo_path?: string } = {}) {
  const { into, result } = await fetchTestSource(source, more)
  expect(result).toEqual({ issue: expect.stringMatching(issue) })
  expect(existsSync(into)).toBe(false)
  expect(await readdir(dirname(into)).catch(() => [])).toEqual([])
}

test('a repository comes whole, without what git keeps', async () => {
  const directory = await repository({ 'a.txt': 'one', 'deep/er/b.sh': 'two', 'ü n/ö.md': 'ä' })
  git(directory, 'update-index', '--chmod=+x', 'deep/er/b.sh')
  git(directory, 'commit', '-q', '-m', 'y')
  const { into, result } = await fetchTestSource(`file://${directory}`)
  expect(result).toEqual({ commit: git(directory, 'rev-parse', 'HEAD').trim() })
  expect((await readdir(into)).sort()).toEqual(['a.txt', 'deep', 'ü n'])
  expect(await readFile(join(into, 'ü n/ö.md'), 'utf8')).toBe('ä')
  expect((await lstat(join(into, 'deep/er/b.sh'))).mode & 0o111).not.toBe(0)
  expect((await lstat(join(into, 'a.txt'))).mode & 0o111).toBe(0)
  expect(await readdir(dirname(into))).toEqual(['tree'])
})

test('a branch, a tag, a commit and a folder can be named; a missing one is an issue', async () => {
  const directory = await repository({ 'x/a': '1', other: 'o' })
  const first = git(directory, 'rev-parse', 'HEAD').trim()
  git(directory, 'tag', 'v1')
  git(directory, 'checkout', '-q', '-b', 'side/line')
  await write(join(directory, 'x/a'), '2')
  git(directory, 'commit', '-q', '-a', '-m', 'y')
  for (const [ref, text] of [
    ['v1', '1'],
    [first, '1'],
    ['side/line', '2'],
  ] as const) {
    const { into, result } = await fetchTestSource(`file://${directory}`, { ref, repo_path: 'x' })
    expect(result).toEqual({ commit: ref === 'side/line' ? expect.any(String) : first })
    expect(await readdir(into)).toEqual(['a'])
    expect(await readFile(join(into, 'a'), 'utf8')).toBe(text)
    await rm(into, { recursive: true })
  }
  await expectIssue(`file://${directory}`, /cannot be fetched/, { ref: 'nothing' })
  await expectIssue(`file://${directory}`, /no folder/, { repo_path: 'nothing' })
  await expectIssue(`file://${directory}`, /no folder/, { repo_path: 'other' })
  await expectIssue(`file://${base}/nothing`, /cannot be fetched/)
  await expectIssue(`file://${base}/home`, /cannot be fetched/)
})

test('a directory with a ref is fetched as the repository that it is, blanks in its path too', async () => {
  const directory = join(base, 'a b%20c')
  await mkdir(directory)
  git(directory, 'init', '-q')
  await write(join(directory, 'f'), 'committed')
  git(directory, 'add', '-A')
  git(directory, 'commit', '-q', '-m', 'x')
  await write(join(directory, 'f'), 'changed')
  const { into, result } = await fetchTestSource(directory, { ref: 'main' })
  expect(result).toEqual({ commit: expect.any(String) })
  expect(await readFile(join(into, 'f'), 'utf8')).toBe('committed')
})

test('a directory is copied as it is, without git folders', async () => {
  const directory = await repository({ a: '1' })
  await write(join(directory, 'sub/.git/config'), 'x')
  await write(join(directory, 'new'), 'not committed')
  await symlink('a', join(directory, 'link'))
  await symlink(join(directory, 'new'), join(directory, 'sub/absolute'))
  const { into, result } = await fetchTestSource(directory)
  expect(result).toEqual({ commit: undefined })
  expect((await readdir(into)).sort()).toEqual(['a', 'link', 'new', 'sub'])
  expect(await readFile(join(into, 'link'), 'utf8')).toBe('1')
  expect(await readFile(join(into, 'sub/absolute'), 'utf8')).toBe('not committed')
  expect(await readdir(join(into, 'sub'))).toEqual(['absolute'])
})

test('no link leads out of a repository or of a directory', async () => {
  for (const target of ['/etc/passwd', '../../../etc', '../x', 'a/../../x']) {
    const directory = await mkdtemp(join(base, 'links-'))
    await write(join(directory, 'a/f'), 'x')
    await symlink(target, join(directory, 'out'))
    await expectIssue(directory, /leads out/)
    git(directory, 'init', '-q')
    git(directory, 'add', '-A')
    git(directory, 'commit', '-q', '-m', 'x')
    await expectIssue(`file://${directory}`, /leads out/)
  }
  // Read as they are written they stay inside; followed, the second leads out through the first.
  const chained = await repository({ 'a/b/c/f': 'x' })
  await symlink('../../..', join(chained, 'a/b/c/top'))
  const { into, result } = await fetchTestSource(chained)
  expect(result).toEqual({ commit: undefined })
  await rm(into, { recursive: true })
  await symlink('a/b/c/top/../..', join(chained, 'out'))
  await expectIssue(chained, /leads out/)
  git(chained, 'add', '-A')
  git(chained, 'commit', '-q', '-m', 'y')
  await expectIssue(`file://${chained}`, /leads out/)
})

test('a link that leads nowhere is left out, and no file is written through a link', async () => {
  const directory = await repository({ f: 'x' })
  await symlink('missing', join(directory, 'dangling'))
  const { into } = await fetchTestSource(directory)
  expect(await readdir(into)).toEqual(['f'])
  await rm(into, { recursive: true })
  const bad = await repository({ f: 'x' })
  const link = writeBlob(bad, '../outside')
  const file = writeBlob(bad, 'gotcha')
  const inner = writeRawTree(bad, [['100644', 'f', file]])
  setMainTree(
    bad,
    writeRawTree(bad, [
      ['120000', 'a', link],
      ['40000', 'a', inner],
    ]),
  )
  await expectIssue(`file://${bad}`, /two entries|leads out|cannot be fetched/)
  expect(existsSync(join(base, 'fetched/outside'))).toBe(false)
})

test.each([['..'], ['.'], ['.git'], ['.GIT'], ['.git '], ['a/b'], ['a\\b'], ['a\nb'], ['../../x']])(
  'a repository with an entry named %j is refused, and writes nothing',
  async (name) => {
    const directory = await repository({ f: 'x' })
    setMainTree(directory, writeRawTree(directory, [['100644', name, writeBlob(directory, 'x')]]))
    const { into, result } = await fetchTestSource(`file://${directory}`)
    // A slash in a name makes an ordinary path of it, which stays inside.
    if (name === 'a/b' && 'commit' in result) return expect(await readdir(into)).toEqual(['a'])
    expect(result).toEqual({ issue: expect.any(String) })
    expect(existsSync(into)).toBe(false)
    expect(await readdir(base)).not.toContain('x')
  },
)

test('two entries of one name are refused', async () => {
  const directory = await repository({ f: 'x' })
  const id = writeBlob(directory, 'y')
  setMainTree(
    directory,
    writeRawTree(directory, [
      ['100644', 'f', id],
      ['100644', 'f', id],
    ]),
  )
  await expectIssue(`file://${directory}`, /two entries/)
})

test('nothing of a repository runs: no hook, no filter, no template of the user', async () => {
  const mark = join(base, 'ran')
  const directory = await repository({ f: 'x', '.gitattributes': '* filter=evil\n' })
  await write(
    join(homeDirectory, '.gitconfig'),
    `[filter "evil"]\n\tsmudge = touch ${mark}; cat\n\tclean = cat\n[init]\n\ttemplateDir = ${homeDirectory}/template\n[core]\n\thooksPath = ${homeDirectory}/hooks\n`,
  )
  for (const place of ['template/hooks', 'hooks']) {
    for (const hook of ['post-checkout', 'reference-transaction', 'post-index-change']) {
      await write(join(homeDirectory, place, hook), `#!/bin/sh\ntouch ${mark}\n`)
      execFileSync('chmod', ['+x', join(homeDirectory, place, hook)])
    }
  }
  for (const hook of ['post-checkout', 'pre-receive', 'reference-transaction']) {
    await write(join(directory, '.git/hooks', hook), `#!/bin/sh\ntouch ${mark}\n`)
    execFileSync('chmod', ['+x', join(directory, '.git/hooks', hook)])
  }
  git(directory, 'config', 'uploadpack.packObjectsHook', `touch ${mark}; git pack-objects`)
  const { into, result } = await fetchTestSource(`file://${directory}`)
  expect(result).toEqual({ commit: expect.any(String) })
  expect(await readFile(join(into, 'f'), 'utf8')).toBe('x')
  expect(existsSync(mark)).toBe(false)
})

test('other repositories in a repository are not fetched', async () => {
  const inner = await repository({ secret: 'x' })
  const directory = await repository({ f: 'x' })
  git(directory, '-c', 'protocol.file.allow=always', 'submodule', 'add', '-q', `file://${inner}`, 'module')
  git(directory, 'commit', '-q', '-m', 'y')
  const { into } = await fetchTestSource(`file://${directory}`)
  expect((await readdir(into)).sort()).toEqual(['.gitmodules', 'f'])
})

test('what is too large or too much is refused', async () => {
  const directory = await repository({ f: 'x' })
  await writeFile(join(directory, 'big'), Buffer.alloc(treeLimits.fileBytes + 1))
  await expectIssue(directory, /too large: big/)
  git(directory, 'add', '-A')
  git(directory, 'commit', '-q', '-m', 'y')
  await expectIssue(`file://${directory}`, /too large: big/)
  const deep = join(base, 'deep')
  await write(join(deep, ...Array.from({ length: treeLimits.depth }, () => 'd'), 'f'), 'x')
  await expectIssue(deep, /name that is not accepted/)
})

test('a tree with too many files or bytes is refused before they are written', async () => {
  const tree = await FileTreeWriter.start(join(base, 'many'))
  const add = (count: number, size: number) => {
    for (let index = 0; index < count; index++) tree.reserve(`f${index}`, size)
  }
  expect(() => add(treeLimits.files + 1, 0)).toThrow(InvalidTreeError)
  const heavy = await FileTreeWriter.start(join(base, 'heavy'))
  expect(() => {
    for (let index = 0; index < 9; index++) heavy.reserve(`f${index}`, treeLimits.fileBytes)
  }).toThrow(/too large/)
})

test('pipes and other special files are refused without blocking', async () => {
  const directory = join(base, 'pipes')
  await write(join(directory, 'f'), 'x')
  execFileSync('mkfifo', [join(directory, 'pipe')])
  await expectIssue(directory, /no file: pipe/)
})

test('a directory that holds the data of the server is refused', async () => {
  await expectIssue(base, /holds the data/)
  await expectIssue(join(base, 'nothing'), /no directory/)
  await write(join(base, 'file'), 'x')
  await expectIssue(join(base, 'file'), /no directory/)
})

test('a fetch that is aborted ends, rejects and leaves nothing', async () => {
  const server = createServer(() => {}).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  const abort = new AbortController()
  server.once('connection', () => abort.abort())
  await expect(
    fetchTestSource(`https://user:s3cret-value@127.0.0.1:${port}/x`, {}, abort.signal),
  ).rejects.toThrow(/abort/i)
  expect(await readdir(join(base, 'fetched'))).toEqual([])
})

test('credentials appear in no issue and no file of the fetch', async () => {
  const { result } = await fetchTestSource('https://user:s3cret-value@127.0.0.1:1/x')
  expect(result).toEqual({ issue: expect.stringMatching(/cannot be fetched/) })
  expect(JSON.stringify(result)).not.toContain('s3cret')
})

/** A server with a certificate that no one trusts, and what it gets of credentials. */
async function openHttpsServer(answer: (url: string, response: ServerResponse) => void) {
  const [key, certificate] = [join(base, 'key.pem'), join(base, 'certificate.pem')]
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  execFileSync('openssl', [...request, '-subj', '/CN=x', '-keyout', key, '-out', certificate], {
    stdio: 'ignore',
  })
  const logins: string[] = []
  const options = { key: await readFile(key), cert: await readFile(certificate) }
  const server = createHttpsServer(options, ({ method, url = '', headers }, response) => {
    logins.push(`${method} ${Buffer.from(headers.authorization?.slice(6) ?? '', 'base64')}`)
    answer(url, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return { logins, url: `https://127.0.0.1:${typeof address === 'object' ? address?.port : 0}` }
}

test('credentials go to the origin of the source, and to none that it redirects to', async () => {
  const references = execFileSync('git', [
    ...['-c', 'safe.directory=*', 'upload-pack', '--stateless-rpc', '--advertise-refs'],
    await repository({ a: 'x' }),
  ])
  const other = await openHttpsServer((url, response) => {
    if (!url.includes('info/refs')) return void response.writeHead(500).end()
    response.setHeader('content-type', 'application/x-git-upload-pack-advertisement')
    response.end(Buffer.concat([Buffer.from('001e# service=git-upload-pack\n0000'), references]))
  })
  const own = await openHttpsServer((url, response) => {
    if (url.startsWith('/moved')) response.writeHead(302, { location: other.url + url }).end()
    else response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
  })
  const address = own.url.replace('://', '://user:s3cr%25t:value@')
  for (const path of ['moved', 'private']) {
    const { result } = await fetchTestSource(`${address}/${path}`, { env: { GIT_SSL_NO_VERIFY: '1' } })
    expect(result).toEqual({ issue: expect.stringMatching(/cannot be fetched|asks for credentials/) })
  }
  expect(own.logins).toEqual(['GET ', 'GET ', 'GET user:s3cr%t:value'])
  expect(other.logins).toEqual(['GET ', 'POST '])
})

test('any tree of files comes out as it went in', async () => {
  const name = fc
    .stringMatching(/^[a-zA-Zäöü0-9 ._-]{1,12}$/)
    .filter((text) => !/^\.{1,2}$|^\.git[\s.]*$/i.test(text))
  const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'))
  const files = fc.dictionary(path, fc.uint8Array({ maxLength: 300 }), { minKeys: 1, maxKeys: 8 })
  await fc.assert(
    fc.asyncProperty(files, async (tree) => {
      const paths = Object.keys(tree).filter(
        (one) => !Object.keys(tree).some((other) => one.startsWith(`${other}/`)),
      )
      const directory = await mkdtemp(join(base, 'any-'))
      git(directory, 'init', '-q')
      for (const one of paths) await write(join(directory, one), Buffer.from(tree[one] ?? []))
      git(directory, 'add', '-A', '-f')
      git(directory, 'commit', '-q', '-m', 'x')
      for (const source of [directory, `file://${directory}`]) {
        const { into, result } = await fetchTestSource(source)
        expect(result).toHaveProperty('commit')
        for (const one of paths) expect(await readFile(join(into, one))).toEqual(Buffer.from(tree[one] ?? []))
        await rm(into, { recursive: true })
      }
    }),
    { numRuns: 10 },
  )
}, 120_000)
