import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { GitChange } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { GitReader } from './git-reader.ts'

const { PATH = '' } = process.env
const neverAborted = new AbortController().signal

/** A directory with a repository in it, and what reads it. */
function createRepository(name = '.') {
  const directory = temporaryDirectory()
  const root = join(directory.path, name)
  // The machine's directory of temporary files may be in a repository.
  const env = { PATH, HOME: directory.path, GIT_CEILING_DIRECTORIES: tmpdir() }
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=Ä. Writer', '-c', 'user.email=a@b.example', ...args], {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    }).toString()
  const write = (path: string, content: string | Buffer = path) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
  const commit = (message = 'a commit') => {
    git('add', '-A')
    git('commit', '-q', '--allow-empty', '-m', message)
    return git('rev-parse', 'HEAD').trim()
  }
  mkdirSync(root, { recursive: true })
  git('init', '-q', '-b', 'main')
  const reader = new GitReader(env)
  return {
    root,
    git,
    write,
    commit,
    outer: directory.path,
    changes: (path = root, ref?: string) => reader.changes(path, ref, neverAborted),
    diff: (path: string, base: { ref?: string; commit?: string } = {}) =>
      reader.diff(join(root, path), base, neverAborted),
    commits: (limit = 50) => reader.commits(root, limit, neverAborted),
    commitChanges: (sha: string) => reader.commitChanges(root, sha, neverAborted),
    [Symbol.dispose]: () => directory[Symbol.dispose](),
  }
}

const changesWith = (status: GitChange['status'], ...paths: string[]) =>
  paths.map((path) => ({ status, path }))
const badRequest = { code: 'bad_request' }

test('changed, new, deleted, renamed and ignored files, by path, with whatever names they have', async () => {
  using at = createRepository()
  const names = [
    'a b.txt',
    'ä/ö ü.txt',
    'line\nfeed',
    'tab\tname',
    '"quoted"',
    '-dash',
    '日本.md',
    'back\\slash',
  ]
  for (const name of [...names, 'gone.txt', 'old.txt', 'same.txt']) at.write(name)
  at.write('.gitignore', 'ignored*\n')
  at.commit()
  for (const name of names) at.write(name, 'changed')
  rmSync(join(at.root, 'gone.txt'))
  at.git('mv', 'old.txt', 'renamed to.txt')
  at.write('ignored.txt')
  at.write('new dir/untracked file')
  expect(await at.changes()).toEqual(
    [
      ...changesWith('UPDATED', ...names),
      ...changesWith('DELETED', 'gone.txt', 'old.txt'),
      ...changesWith('ADDED', 'new dir/untracked file', 'renamed to.txt'),
    ].sort((a, b) => (a.path < b.path ? -1 : 1)),
  )
  expect(await at.diff('line\nfeed')).toEqual({ original: 'line\nfeed', modified: 'changed' })
  expect(await at.diff('ä/ö ü.txt')).toEqual({ original: 'ä/ö ü.txt', modified: 'changed' })
  expect(await at.diff('gone.txt')).toEqual({ original: 'gone.txt', modified: '' })
  expect(await at.diff('new dir/untracked file')).toEqual({
    original: '',
    modified: 'new dir/untracked file',
  })
})

test('for any work on any names, the changes are what differs between the commit and the files', async () => {
  const name = fc
    .string({
      minLength: 1,
      maxLength: 8,
      unit: fc.constantFrom('a', 'B', ' ', '\n', 'é', '-', '"', '\\', '*', '😀'),
    })
    .filter((text) => text.trim() !== '' && !text.startsWith('.'))
  const path = fc.array(name, { minLength: 1, maxLength: 2 }).map((parts) => parts.join('/'))
  const step = fc.record({
    path,
    deed: fc.constantFrom('write', 'remove', 'stage', 'link'),
    content: fc.constantFrom('1', '2'),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 6 }),
      fc.array(step, { maxLength: 6 }),
      async (before, after) => {
        using at = createRepository()
        const files = new Map<string, string>()
        const apply = ({ path, deed, content }: (typeof before)[number]) => {
          const parts = path.split('/')
          const isInWay = parts.length > 1 && files.has(parts[0] ?? '')
          if (isInWay || [...files.keys()].some((file) => file.startsWith(`${path}/`))) return
          if (deed === 'remove') {
            files.delete(path)
            rmSync(join(at.root, path), { force: true })
            return
          }
          if (deed === 'stage') return void at.git('add', '-A')
          rmSync(join(at.root, path), { force: true })
          mkdirSync(dirname(join(at.root, path)), { recursive: true })
          if (deed === 'link') symlinkSync(content, join(at.root, path))
          else at.write(path, content)
          files.set(path, `${deed} ${content}`)
        }
        before.forEach(apply)
        at.commit()
        const old = new Map(files)
        after.forEach(apply)
        const paths = [...new Set([...old.keys(), ...files.keys()])].sort()
        const expected = paths.flatMap((path) => {
          const [was, is] = [old.get(path), files.get(path)]
          if (was === is) return []
          return changesWith(was === undefined ? 'ADDED' : is === undefined ? 'DELETED' : 'UPDATED', path)
        })
        expect(await at.changes()).toEqual(expected)
        for (const { path, status } of expected) {
          const { original, modified } = await at.diff(path)
          if (status === 'ADDED') expect(original).toBe('')
          if (status === 'DELETED') expect(modified).toBe('')
        }
      },
    ),
    { numRuns: 12 },
  )
}, 180_000)

test('where there is no repository, nothing has changed; a file is no directory', async () => {
  using directory = temporaryDirectory()
  const git = new GitReader({ PATH, HOME: directory.path, GIT_CEILING_DIRECTORIES: tmpdir() })
  writeFileSync(join(directory.path, 'file'), 'x')
  expect(await git.changes(directory.path, undefined, neverAborted)).toEqual([])
  expect(await git.changes(join(directory.path, 'missing'), 'HEAD', neverAborted)).toEqual([])
  expect(await git.diff(join(directory.path, 'file'), {}, neverAborted)).toEqual({
    modified: null,
    original: null,
  })
  expect(await git.commits(directory.path, 5, neverAborted)).toEqual({ commits: [], has_more: false })
  await expect(git.changes(join(directory.path, 'file'), undefined, neverAborted)).rejects.toMatchObject(
    badRequest,
  )
  await expect(git.changes('a\0b', undefined, neverAborted)).rejects.toMatchObject(badRequest)
  expect(await git.commitChanges(directory.path, 'abcd', neverAborted)).toEqual([])
})

test('in a repository without a commit everything is new', async () => {
  using at = createRepository()
  at.write('staged')
  at.git('add', '-A')
  at.write('loose')
  expect(await at.changes()).toEqual(changesWith('ADDED', 'loose', 'staged'))
  expect(await at.changes(at.root, 'HEAD')).toEqual(changesWith('ADDED', 'loose', 'staged'))
  expect(await at.diff('loose', { ref: 'HEAD' })).toEqual({ original: '', modified: 'loose' })
  expect(await at.commits()).toEqual({ commits: [], has_more: false })
  await expect(at.changes(at.root, 'main')).rejects.toMatchObject(badRequest)
})

test('without a ref the work is compared with where it left the default branch of the remote', async () => {
  using at = createRepository('origin')
  at.write('base')
  at.commit('base')
  const clone = join(at.outer, 'clone')
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', clone, '-c', 'user.name=x', '-c', 'user.email=x', ...args], { stdio: 'pipe' })
  execFileSync('git', ['clone', '-q', at.root, clone], { stdio: 'pipe' })
  writeFileSync(join(clone, 'committed'), 'x')
  git('add', '-A')
  git('commit', '-qm', 'work')
  at.write('later')
  at.commit('later')
  git('fetch', '-q')
  expect(await at.changes(clone)).toEqual(changesWith('ADDED', 'committed'))
  expect(await at.changes(clone, 'HEAD')).toEqual([])
  expect(await at.changes(clone, 'origin/main')).toEqual([
    ...changesWith('ADDED', 'committed'),
    ...changesWith('DELETED', 'later'),
  ])
  git('checkout', '-q', '--detach', 'HEAD')
  expect(await at.changes(clone)).toEqual(changesWith('ADDED', 'committed'))
})

test('a ref that names no commit is refused, whatever it is', async () => {
  using at = createRepository()
  at.write('a')
  at.commit()
  for (const ref of [
    'nope',
    '--output=/tmp/x',
    '-h',
    'HEAD:a',
    'HEAD^{tree}',
    'a..b',
    'HEAD~9',
    '\0',
    '$(touch x)',
  ]) {
    await expect(at.changes(at.root, ref), ref).rejects.toMatchObject(badRequest)
    await expect(at.diff('a', { ref }), ref).rejects.toMatchObject(badRequest)
  }
  await expect(at.diff('a', { ref: 'HEAD', commit: 'abcd' })).rejects.toMatchObject(badRequest)
  for (const commit of ['HEAD', 'abc', 'f'.repeat(65), 'ffff', '--all']) {
    await expect(at.diff('a', { commit }), commit).rejects.toMatchObject(badRequest)
    await expect(at.commitChanges(commit), commit).rejects.toMatchObject(badRequest)
  }
  await expect(at.diff('missing')).rejects.toMatchObject(badRequest)
})

test('type changes, links and directories', async () => {
  using at = createRepository()
  at.write('file')
  at.write('becomes a directory')
  symlinkSync('target', join(at.root, 'link'))
  at.commit()
  rmSync(join(at.root, 'file'))
  symlinkSync('/etc/hostname', join(at.root, 'file'))
  rmSync(join(at.root, 'link'))
  at.write('link', 'now a file')
  rmSync(join(at.root, 'becomes a directory'))
  at.write('becomes a directory/inner')
  expect(await at.changes()).toEqual([
    ...changesWith('DELETED', 'becomes a directory'),
    ...changesWith('ADDED', 'becomes a directory/inner'),
    ...changesWith('UPDATED', 'file', 'link'),
  ])
  expect(await at.diff('file')).toEqual({ original: 'file', modified: '/etc/hostname' })
  expect(await at.diff('link')).toEqual({ original: 'target', modified: 'now a file' })
  expect(await at.diff('becomes a directory')).toEqual({ original: 'becomes a directory', modified: '' })
})

test('repositories right below are included with their names, and hide nothing that only begins like them', async () => {
  using at = createRepository()
  at.write('app-notes/x')
  at.commit()
  at.write('app-notes/x', 'changed')
  for (const name of ['app', 'deep/er']) {
    at.write(`${name}/inner`)
    execFileSync('git', ['init', '-q'], { cwd: join(at.root, name) })
  }
  mkdirSync(join(at.root, 'broken/.git'), { recursive: true })
  expect(await at.changes()).toEqual(
    [...changesWith('UPDATED', 'app-notes/x'), ...changesWith('ADDED', 'app/inner')].sort((a, b) =>
      a.path < b.path ? -1 : 1,
    ),
  )
  const [below] = (await at.changes(join(at.root, 'deep'))).map(({ path }) => path)
  expect(below).toBe('er/inner')
})

test('submodules are one change, and what is in them stands below their name', async () => {
  using at = createRepository('outer')
  const library = join(at.outer, 'library')
  mkdirSync(library)
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x', ...args], { cwd: library, stdio: 'pipe' })
  git('init', '-q')
  writeFileSync(join(library, 'code'), 'x')
  git('add', '-A')
  git('commit', '-qm', 'x')
  at.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', library, 'sub')
  at.commit()
  writeFileSync(join(at.root, 'sub/code'), 'changed')
  expect(await at.changes()).toEqual(changesWith('UPDATED', 'sub/code'))
})

test('a directory in a repository is seen from itself', async () => {
  using at = createRepository()
  at.write('outside')
  at.write('in/side')
  at.commit()
  at.write('outside', 'changed')
  at.write('in/side', 'changed')
  at.write('in/new')
  expect(await at.changes(join(at.root, 'in'))).toEqual([
    ...changesWith('ADDED', 'new'),
    ...changesWith('UPDATED', 'side'),
  ])
})

test('files that are no text are told of in their place, and other encodings are read', async () => {
  using at = createRepository()
  at.write('binary', Buffer.from([1, 0, 2]))
  at.write('latin', Buffer.from('caf\xe9', 'latin1'))
  at.write('empty', '')
  at.commit()
  at.write('binary', Buffer.from([1, 0, 2, 3]))
  at.write('empty', 'no more')
  expect(await at.diff('binary')).toEqual({
    original: '[This is no text: 3 bytes.]',
    modified: '[This is no text: 4 bytes.]',
  })
  expect(await at.diff('latin')).toEqual({ original: 'caf\ufffd', modified: 'caf\ufffd' })
  expect(await at.diff('empty')).toEqual({ original: '', modified: 'no more' })
})

test('a file larger than 1 MiB is refused, its former text told of in its place, one of just as much shown', async () => {
  using at = createRepository()
  const largest = 'x'.repeat(1024 * 1024)
  at.write('was', `${largest}x`)
  at.write('just', 'small')
  at.commit()
  at.write('was', 'small')
  at.write('just', largest)
  at.write('new', `${largest}x`)
  const note = '[This file is larger than 1 MiB: 1048577 bytes.]'
  expect(await at.diff('was')).toEqual({ original: note, modified: 'small' })
  await expect(at.diff('new')).rejects.toMatchObject({
    ...badRequest,
    message: 'File too large for git diff: 1048577 bytes (max: 1048576 bytes)',
  })
  expect(await at.diff('just')).toEqual({ original: 'small', modified: largest })
})

test('the final line feed is left out, other blanks stay, and CRLF is read as LF', async () => {
  using at = createRepository()
  at.write('text', ' one \r\ntwo\n\n')
  at.commit()
  at.write('text', ' one \ntwo')
  expect(await at.diff('text')).toEqual({ original: ' one \ntwo\n', modified: ' one \ntwo' })
})

test('commits are listed newest first with a word whether there are more, and each says what it changed', async () => {
  using at = createRepository()
  at.write('first')
  const root = at.commit('first\n\nwith a body')
  at.git('checkout', '-qb', 'side')
  at.write('on the side')
  at.commit('side | "quoted" é')
  at.git('checkout', '-q', 'main')
  at.write('first', 'changed')
  at.commit('second')
  at.git('merge', '-q', '--no-ff', '-m', 'merge', 'side')
  const all = await at.commits()
  expect(all.has_more).toBe(false)
  expect(all.commits).toHaveLength(4)
  expect(all.commits[0]).toMatchObject({ subject: 'merge', author: 'Ä. Writer' })
  expect(all.commits.at(-1)).toMatchObject({ sha: root, subject: 'first', short_sha: root.slice(0, 7) })
  expect(all.commits[0]?.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-Z]/)
  expect(await at.commits(2)).toEqual({ commits: all.commits.slice(0, 2), has_more: true })
  expect(await at.commits(4)).toEqual(all)
  expect(await at.commitChanges(root)).toEqual(changesWith('ADDED', 'first'))
  expect(await at.commitChanges(all.commits[0]?.sha ?? '')).toEqual(changesWith('ADDED', 'on the side'))
  expect(await at.diff('first', { commit: root.slice(0, 8) })).toEqual({ original: '', modified: 'first' })
})

test('nothing that a repository names is run, and nothing in it is written', async () => {
  using at = createRepository('repository')
  at.write('.gitattributes', '* filter=evil diff=evil\n')
  at.write('a')
  at.write('touched')
  at.commit()
  const trace = join(at.outer, 'trace')
  const evil = join(at.outer, 'evil.sh')
  writeFileSync(evil, `#!/bin/sh\necho "$0 $@" >> ${trace}\ncat\n`)
  chmodSync(evil, 0o755)
  for (const name of [
    'core.fsmonitor',
    'core.pager',
    'core.sshCommand',
    'core.editor',
    'diff.external',
    'diff.evil.command',
    'diff.evil.textconv',
    'filter.evil.clean',
    'filter.evil.smudge',
    'filter.evil.process',
    'gpg.program',
    'pager.diff',
    'pager.log',
    'credential.helper',
  ])
    at.git('config', name, evil)
  at.git('config', 'filter.evil.required', 'true')
  at.git('config', 'log.showSignature', 'true')
  for (const hook of [
    'post-index-change',
    'pre-commit',
    'post-checkout',
    'reference-transaction',
    'fsmonitor-watchman',
  ]) {
    mkdirSync(join(at.root, '.git/hooks'), { recursive: true })
    writeFileSync(join(at.root, '.git/hooks', hook), readFileSync(evil), { mode: 0o755 })
  }
  rmSync(trace, { force: true })
  // Signed by nobody, and one that was only touched: git would ask the signer, and note what it found in the
  // index.
  const text = at
    .git('cat-file', 'commit', 'HEAD')
    .replace('\n\n', '\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n\n')
  const signed = execFileSync('git', ['-C', at.root, 'hash-object', '-t', 'commit', '-w', '--stdin'], {
    input: text,
  })
  writeFileSync(join(at.root, '.git/refs/heads/main'), signed)
  utimesSync(join(at.root, 'touched'), 1, 1)
  rmSync(trace, { force: true })
  // Of the same size, so that the contents have to be looked at.
  at.write('a', 'b')
  at.write('new')
  const index = await stat(join(at.root, '.git/index'))
  expect(await at.changes()).toEqual([...changesWith('UPDATED', 'a'), ...changesWith('ADDED', 'new')])
  expect(await at.diff('a')).toEqual({ original: 'a', modified: 'b' })
  const { commits } = await at.commits()
  await at.commitChanges(commits[0]?.sha ?? '')
  await at.diff('a', { commit: commits[0]?.sha ?? '' })
  expect(existsSync(trace) ? readFileSync(trace, 'utf8') : '').toBe('')
  const after = await stat(join(at.root, '.git/index'))
  expect([after.mtimeMs, after.ino]).toEqual([index.mtimeMs, index.ino])
})

test('a partial clone is not completed by running what its remote names', async () => {
  using at = createRepository('origin')
  at.write('a')
  at.commit()
  at.write('a', 'second')
  at.commit()
  at.git('config', 'uploadpack.allowFilter', 'true')
  const clone = join(at.outer, 'clone')
  execFileSync('git', ['clone', '-q', '--filter=blob:none', '--no-checkout', `file://${at.root}`, clone], {
    stdio: 'pipe',
  })
  const trace = join(at.outer, 'trace')
  execFileSync('git', ['-C', clone, 'config', 'remote.origin.uploadpack', `touch ${trace}; git-upload-pack`])
  const git = new GitReader({ PATH, HOME: at.outer, GIT_CEILING_DIRECTORIES: tmpdir() })
  await git.diff(join(clone, 'a'), { ref: 'HEAD~1' }, neverAborted).catch(() => undefined)
  await git.changes(clone, 'HEAD~1', neverAborted).catch(() => undefined)
  expect(existsSync(trace)).toBe(false)
})
