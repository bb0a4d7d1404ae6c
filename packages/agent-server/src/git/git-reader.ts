import type { Dirent } from 'node:fs'
import { lstat, readdir, realpath, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { type GitChange, type GitCommit, type GitDiff, type GitStatus, Problem } from '@slipway/protocol'
import { readSide, readStored } from './file-contents.ts'
import { hasRepository, Repository } from './repository.ts'

/** Of the directories right below one, so many are looked into. */
const maxNested = 200
const nestedAtOnce = 4
/** Nothing that is configured runs, whatever attributes say; a rename is a file less and a file more. */
export const plainly = [
  '--no-renames',
  '--no-ext-diff',
  '--no-textconv',
  '--ignore-submodules=dirty',
] as const
const commitName = /^[0-9a-f]{4,64}$/i
/** Of a commit, each ended by a NUL. */
const commitFields = ['%H', '%h', '%s', '%an', '%aI'] as const

/** Reads repositories for callers: nothing of a repository is written, and nothing that it names is run. */
export class Git {
  readonly #env: Readonly<Record<string, string>>

  /** `env` is what git gets of the environment. */
  constructor(env: Readonly<Record<string, string>>) {
    this.#env = env
  }

  /**
   * The files below a directory that differ from `ref`, and those of the repositories right below it, in order of path; empty
   * where there is no repository. Without `ref`: from where the work left the remote's default branch, else from HEAD. A
   * Problem `bad_request` when `ref` names no commit, the path is no directory, or git fails.
   */
  async changes(path: string, ref: string | undefined, signal: AbortSignal): Promise<GitChange[]> {
    const directory = await directoryOf(path)
    if (directory === undefined) return []
    const nested = await this.#nested(directory)
    const found = await this.#changesIn(directory, ref, signal)
    const isInside = ({ path: name }: GitChange) => {
      const [first = '', ...rest] = name.split('/')
      return rest.length > 0 && nested.includes(first)
    }
    const all = (found ?? []).filter((change) => !isInside(change))
    for (let at = 0; at < nested.length; at += nestedAtOnce) {
      const some = nested.slice(at, at + nestedAtOnce)
      all.push(
        ...(await Promise.all(some.map((name) => this.#nestedChanges(directory, name, ref, signal)))).flat(),
      )
    }
    return inOrder(all)
  }

  /** A file before and after. Problems `bad_request`: both of `ref` and `commit`, no such commit, no such file on either side. */
  async diff(
    path: string,
    base: { readonly ref?: string | undefined; readonly commit?: string | undefined },
    signal: AbortSignal,
  ): Promise<GitDiff> {
    if (base.ref !== undefined && base.commit !== undefined)
      throw new Problem('bad_request', 'Give ref or commit, not both')
    const file = await fileOf(path)
    await using repository = await Repository.find(file.directory, this.#env, signal)
    if (repository === undefined) return { modified: null, original: null }
    const [before, after] =
      base.commit === undefined
        ? [await baseOf(repository, base.ref), undefined]
        : await endsOf(repository, base.commit)
    const name = `./${file.name}`
    const original = await readStored(repository, `${before}:${name}`)
    const modified =
      after === undefined
        ? await readSide(join(repository.directory, file.name))
        : await readStored(repository, `${after}:${name}`)
    if (original === null && modified === null) throw new Problem('bad_request', 'There is no such file')
    return { modified, original }
  }

  /** The newest commits of HEAD, and whether there are more. */
  async commits(
    path: string,
    limit: number,
    signal: AbortSignal,
  ): Promise<{ readonly commits: GitCommit[]; readonly has_more: boolean }> {
    await using repository = await this.#find(path, signal)
    const head = await repository?.ask(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'])
    if (repository === undefined || head === undefined) return { commits: [], has_more: false }
    const format = `--format=tformat:${commitFields.join('%x00')}`
    const fields = await repository.list(['log', '-z', `--max-count=${limit + 1}`, format, head, '--'])
    const commits: GitCommit[] = []
    for (let at = 0; at + commitFields.length <= fields.length; at += commitFields.length) {
      const [sha = '', short_sha = '', subject = '', author = '', timestamp = ''] = fields.slice(at)
      commits.push({ sha, short_sha, subject, author, timestamp })
    }
    return { commits: commits.slice(0, limit), has_more: commits.length > limit }
  }

  /** What a commit changed, a merge for its first parent. */
  async commitChanges(path: string, commit: string, signal: AbortSignal): Promise<GitChange[]> {
    await using repository = await this.#find(path, signal)
    if (repository === undefined) throw noCommit()
    const ends = await endsOf(repository, commit)
    const args = ['diff-tree', '-r', '-z', '--no-commit-id', '--name-status', '--relative', ...plainly]
    return inOrder(changesOf(await repository.list([...args, ...ends])))
  }

  async #find(path: string, signal: AbortSignal): Promise<Repository | undefined> {
    const directory = await directoryOf(path)
    return directory === undefined ? undefined : await Repository.find(directory, this.#env, signal)
  }

  /** Undefined where there is no repository. */
  async #changesIn(
    directory: string,
    ref: string | undefined,
    signal: AbortSignal,
  ): Promise<GitChange[] | undefined> {
    await using repository = await Repository.find(directory, this.#env, signal)
    return repository === undefined
      ? undefined
      : await changesSince(repository, await baseOf(repository, ref))
  }

  /** What goes wrong in one of them is not in the way of the others. `ref` may be a word of the outer repository alone. */
  async #nestedChanges(
    directory: string,
    name: string,
    ref: string | undefined,
    signal: AbortSignal,
  ): Promise<GitChange[]> {
    try {
      await using repository = await Repository.find(join(directory, name), this.#env, signal)
      if (repository === undefined) return []
      const base = ref === undefined ? undefined : await commitOf(repository, ref)
      const changes = await changesSince(repository, base ?? (await baseOf(repository, undefined)))
      return changes.map(({ status, path }) => ({ status, path: `${name}/${path}` }))
    } catch (error) {
      if (error instanceof Problem) return []
      throw error
    }
  }

  /** The names of directories right below that have a repository of their own. Links are not followed. */
  async #nested(directory: string): Promise<string[]> {
    const entries: Dirent[] = await readdir(directory, { withFileTypes: true }).catch(() => [])
    const names = entries
      .filter((entry) => entry.isDirectory() && entry.name !== '.git')
      .map(({ name }) => name)
    const found: string[] = []
    for (const name of names.sort()) {
      if (found.length < maxNested && (await hasRepository(join(directory, name)))) found.push(name)
    }
    return found
  }
}

/** Tracked files that differ from a tree, and files that are neither tracked nor ignored. */
async function changesSince(repository: Repository, base: string): Promise<GitChange[]> {
  const diff = ['diff', '-z', '--name-status', '--relative', ...plainly, base, '--']
  const tracked = changesOf(await repository.list(diff, { comparesFiles: true }))
  const others = await repository.list(['ls-files', '-z', '--others', '--exclude-standard'], {
    comparesFiles: true,
  })
  // A directory is a repository of its own, or one with nothing in it.
  const added = others
    .filter((path) => !path.endsWith('/'))
    .map((path) => ({ status: 'ADDED', path }) as const)
  return [...tracked, ...added]
}

/** The commit or tree that the work is compared with. */
export async function baseOf(repository: Repository, ref: string | undefined): Promise<string> {
  if (ref !== undefined) {
    const named = await commitOf(repository, ref)
    if (named !== undefined) return named
    if (ref === 'HEAD') return await emptyTree(repository)
    throw new Problem('bad_request', 'The ref names no commit')
  }
  const head = await commitOf(repository, 'HEAD')
  if (head === undefined) return await emptyTree(repository)
  for (const branch of ['origin/HEAD', 'origin/main', 'origin/master']) {
    const remote = await commitOf(repository, `refs/remotes/${branch}`)
    if (remote !== undefined) return (await repository.ask(['merge-base', head, remote])) ?? head
  }
  return head
}

/** The parent of a commit, or the empty tree, and the commit. */
async function endsOf(repository: Repository, commit: string): Promise<[string, string]> {
  const after = commitName.test(commit) ? await commitOf(repository, commit) : undefined
  if (after === undefined) throw noCommit()
  return [(await commitOf(repository, `${after}^1`)) ?? (await emptyTree(repository)), after]
}

/** Undefined when it names no commit. */
async function commitOf(repository: Repository, name: string): Promise<string | undefined> {
  if (name.startsWith('-') || name.includes('\0')) return undefined
  return await repository.ask(['rev-parse', '--verify', '--quiet', `${name}^{commit}`])
}

/** By the digest that the repository uses. */
async function emptyTree(repository: Repository): Promise<string> {
  const id = await repository.ask(['hash-object', '-t', 'tree', '/dev/null'])
  if (id === undefined) throw new Problem('bad_request', 'git failed: there is no empty tree')
  return id
}

/** Pairs of a letter and a path. */
function changesOf(fields: readonly string[]): GitChange[] {
  const changes: GitChange[] = []
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [letter = '', path = ''] = fields.slice(at, at + 2)
    changes.push({ status: statuses[letter.slice(0, 1)] ?? 'UPDATED', path })
  }
  return changes
}

/** Other letters: changed, of another type, not merged. */
const statuses: Readonly<Record<string, GitStatus>> = { A: 'ADDED', D: 'DELETED' }

/** By path, each path once: one that is no longer tracked but still there was neither deleted nor added. */
function inOrder(changes: readonly GitChange[]): GitChange[] {
  const byPath = new Map<string, GitChange>()
  for (const change of changes) {
    const known = byPath.get(change.path)
    const isBoth = known !== undefined && known.status !== change.status
    byPath.set(change.path, isBoth ? { status: 'UPDATED', path: change.path } : change)
  }
  return [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))
}

function noCommit(): Problem {
  return new Problem('bad_request', 'There is no such commit')
}

/** Undefined when there is nothing; a Problem when it is no directory. */
async function directoryOf(path: string): Promise<string | undefined> {
  const at = await placeOf(path)
  const found = await stat(at).catch(() => undefined)
  if (found === undefined) return undefined
  if (!found.isDirectory()) throw new Problem('bad_request', 'The path is not a directory')
  return at
}

/** The nearest directory that is there, and the rest of the path. The file itself may be a link, which is not followed. */
async function fileOf(path: string): Promise<{ readonly directory: string; readonly name: string }> {
  const at = await placeOf(path)
  let directory = dirname(at)
  let name = basename(at)
  while (!(await isDirectory(directory)) && directory !== dirname(directory)) {
    name = `${basename(directory)}/${name}`
    directory = dirname(directory)
  }
  return { directory: await realpath(directory), name }
}

async function isDirectory(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

/** A path that lost its first slash on the way is looked for with it before it is taken as relative. */
async function placeOf(path: string): Promise<string> {
  if (path.includes('\0')) throw new Problem('bad_request', 'The path contains a NUL byte')
  if (isAbsolute(path)) return resolve(path)
  const isThere = await lstat(`/${path}`).then(
    () => true,
    () => false,
  )
  return isThere ? resolve(`/${path}`) : resolve(path)
}
