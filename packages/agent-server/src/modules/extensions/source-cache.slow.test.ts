import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { parseSource, type Source } from '@slipway/agent'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { SourceCache } from './source-cache.ts'

const never = new AbortController().signal

function writeFileAt(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

/** A repository, a cache, and a git that notes each fetch. */
function createDirectories() {
  const directory = temporaryDirectory()
  onTestFinished(() => directory[Symbol.dispose]())
  const at = (path: string) => join(directory.path, path)
  const real = execFileSync('/bin/sh', ['-c', 'command -v git']).toString().trim()
  const counted = at('count')
  writeFileAt(
    at('bin/git'),
    `#!/bin/sh\ncase " $* " in *' fetch '*) echo . >> '${counted}'; [ -e '${at('slow')}' ] && sleep 1;; esac\nexec '${real}' "$@"\n`,
  )
  chmodSync(at('bin/git'), 0o755)
  const git = (...args: string[]) => {
    const identity = ['-c', 'user.name=t', '-c', 'user.email=t@t.test', '-c', 'init.defaultBranch=main']
    const options = { cwd: at('repository'), stdio: 'pipe' } as const
    return execFileSync(real, [...identity, ...args], options)
      .toString()
      .trim()
  }
  mkdirSync(at('repository'))
  git('init', '-q')
  const commit = (text: string) => {
    writeFileAt(at('repository/file'), text)
    git('add', '-A')
    git('commit', '-q', '-m', text)
    return git('rev-parse', 'HEAD')
  }
  let clock = 1_000_000
  const open = (more: { keepsAll?: boolean; retryMs?: number } = {}) => {
    const fetched = new SourceCache({
      directory: at('cache'),
      environment: { PATH: `${at('bin')}:${process.env.PATH ?? ''}`, HOME: at('home') },
      keepsAllCommits: more.keepsAll ?? true,
      retryMs: more.retryMs ?? 0,
      log: () => {},
      now: () => clock,
    })
    onTestFinished(() => fetched[Symbol.asyncDispose]())
    return fetched
  }
  return {
    at,
    git,
    commit,
    open,
    source: (ref?: string) => sourceOf(`file://${at('repository')}`, ref),
    pass: (ms: number) => {
      clock += ms
    },
    fetches: () => (existsSync(counted) ? readFileSync(counted, 'utf8').length / 2 : 0),
  }
}

function sourceOf(source: string, ref?: string): Source {
  const read = parseSource({ source, ref, repo_path: undefined })
  if ('issue' in read) throw new Error(read.issue)
  return read
}

async function readSkillText(files: Awaited<ReturnType<SourceCache['get']>>): Promise<string> {
  if ('issue' in files) return files.issue
  return await readFile(join(files.directory, 'file'), 'utf8')
}

test('concurrent requests share one fetch, and old files are fetched again', async () => {
  const { commit, open, source, pass, fetches } = createDirectories()
  const first = commit('one')
  const fetched = open()
  const all = await Promise.all(Array.from({ length: 5 }, () => fetched.get(source(), 1000, never)))
  expect(new Set(all.map((files) => JSON.stringify(files))).size).toBe(1)
  expect(all[0]).toMatchObject({ commit: first })
  expect(fetches()).toBe(1)
  commit('two')
  pass(1000)
  expect(await readSkillText(await fetched.get(source(), 1000, never))).toBe('one')
  pass(1)
  expect(await readSkillText(await fetched.get(source(), 1000, never))).toBe('two')
  expect(await readSkillText(await fetched.get(source(first), 0, never))).toBe('one')
  expect(fetches()).toBe(2)
  expect(await readSkillText(await open().get(source(), 1000, never))).toBe('two')
  expect(fetches()).toBe(2)
})

test('old files remain when a fetch fails; a refresh returns the issue', async () => {
  const { at, commit, open, source, pass } = createDirectories()
  commit('one')
  const fetched = open()
  await fetched.get(source(), 0, never)
  await rm(at('repository'), { recursive: true })
  pass(10)
  expect(await readSkillText(await fetched.get(source(), 0, never))).toBe('one')
  expect(await fetched.refresh(source(), never)).toMatchObject({ issue: expect.any(String) })
  expect(await fetched.get(source('other'), 0, never)).toMatchObject({ issue: expect.any(String) })
})

test('a failed source is not fetched again at once, except by a refresh', async () => {
  const { open, source, pass, fetches, commit } = createDirectories()
  const fetched = open({ retryMs: 500 })
  for (let count = 0; count < 3; count++)
    expect(await fetched.get(source(), 0, never)).toHaveProperty('issue')
  expect(fetches()).toBe(1)
  commit('one')
  expect(await fetched.get(source(), 0, never)).toHaveProperty('issue')
  pass(500)
  expect(await readSkillText(await fetched.get(source(), 0, never))).toBe('one')
})

test('only the newest commit and the one before stay, unless all must stay', async () => {
  for (const keepsAll of [true, false]) {
    const { at, commit, open, source } = createDirectories()
    const fetched = open({ keepsAll })
    const commits: string[] = []
    for (const text of ['one', 'two', 'three', 'four']) {
      commits.push(commit(text))
      await fetched.refresh(source(), never)
    }
    const [key = ''] = readdirSync(at('cache')).filter((name) => /^[0-9a-f]{32}$/.test(name))
    const expected = keepsAll ? commits : commits.slice(-2)
    expect(readdirSync(join(at('cache'), key)).sort()).toEqual([...expected].sort())
  }
})

test('an aborted request does not stop the fetch for others', async () => {
  const { at, commit, open, source } = createDirectories()
  commit('one')
  writeFileAt(at('slow'), '')
  const fetched = open()
  const abort = new AbortController()
  const [gone, waiting] = [fetched.get(source(), 0, abort.signal), fetched.get(source(), 0, never)]
  abort.abort()
  await expect(gone).rejects.toThrow(/abort/i)
  expect(await readSkillText(await waiting)).toBe('one')
})

test('leftovers of a crash are removed, and a damaged index is replaced', async () => {
  const { at, commit, open, source } = createDirectories()
  writeFileAt(at('cache/.fetching/left/over'), 'x')
  writeFileAt(at('cache/fetched.json'), '{"broken')
  commit('one')
  expect(await readSkillText(await open().get(source(), 1000, never))).toBe('one')
  expect(existsSync(at('cache/.fetching/left'))).toBe(false)
  expect(JSON.parse(readFileSync(at('cache/fetched.json'), 'utf8'))).toHaveLength(1)
})

test('a local directory is used in place', async () => {
  const { at, commit, open, fetches } = createDirectories()
  commit('one')
  const files = await open().get(sourceOf(at('repository')), 0, never)
  expect(files).toEqual({ directory: at('repository'), commit: undefined })
  expect(await open().get(sourceOf(at('nothing')), 0, never)).toEqual({ issue: 'is no directory' })
  expect(fetches()).toBe(0)
})
