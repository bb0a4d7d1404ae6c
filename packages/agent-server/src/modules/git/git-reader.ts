import type { Dirent } from 'node:fs'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { type GitChange, type GitCommit, type GitDiff, type GitStatus, Problem } from '@slipway/protocol'
import { Semaphore } from '@slipway/shared/async'
import { isDirectory } from '@slipway/shared/fs'
import { lstat, readdir, realpath, stat } from '@slipway/shared/tool-files'
import { readCommittedFile, readWorkingFile } from './file-contents.ts'
import { GitRepository, hasRepository } from './repository.ts'

const maxNested = 200
const nestedConcurrency = 4
const commitIdPattern = /^[0-9a-f]{4,64}$/i
/** Of a commit, each ended by a NUL. */
const commitFields = ['%H', '%h', '%s', '%an', '%aI'] as const

/** Reads repositories without writing to them or running programs that they name. */
export class GitReader {
  readonly #env: Readonly<Record<string, string>>

  constructor(env: Readonly<Record<string, string>>) {
    this.#env = env
  }

  /**
   * The changed files below a directory and in the repositories directly below it, by path. The base is
   * `ref`, else the merge base with the default branch of the remote, else HEAD. A Problem `bad_request` when
   * `ref` names no commit, the path is no directory, or git fails.
   */
  async changes(path: string, ref: string | undefined, signal: AbortSignal): Promise<GitChange[]> {
    const directory = await resolveDirectory(path)
    if (directory === undefined) return []
    const nested = await this.#listNestedRepositories(directory)
    const ownChanges = await this.#changesIn(directory, (repository) => resolveBase(repository, ref), signal)
    const isInNested = ({ path: name }: GitChange) => {
      const [first = '', ...rest] = name.split('/')
      return rest.length > 0 && nested.includes(first)
    }
    const slots = new Semaphore(nestedConcurrency)
    const nestedChanges = await Promise.all(
      nested.map((name) => slots.run(() => this.#nestedChanges(directory, name, ref, signal))),
    )
    return mergeByPath([...ownChanges.filter((change) => !isInNested(change)), ...nestedChanges.flat()])
  }

  /** A file before and after. Problems `bad_request`: both bases, no such commit, no such file. */
  async diff(
    path: string,
    base: { readonly ref?: string | undefined; readonly commit?: string | undefined },
    signal: AbortSignal,
  ): Promise<GitDiff> {
    if (base.ref !== undefined && base.commit !== undefined)
      throw new Problem('bad_request', "'ref' and 'commit' are mutually exclusive")
    const file = await locateFile(path)
    await using repository = await GitRepository.open(file.directory, this.#env, signal)
    if (repository === undefined) return { modified: null, original: null }
    const [before, after] =
      base.commit === undefined
        ? [await resolveBase(repository, base.ref), undefined]
        : await resolveCommitRange(repository, base.commit)
    const name = `./${file.name}`
    const original = await readCommittedFile(repository, `${before}:${name}`)
    const modified =
      after === undefined
        ? await readWorkingFile(join(repository.directory, file.name))
        : await readCommittedFile(repository, `${after}:${name}`)
    if (original === null && modified === null)
      throw new Problem('bad_request', `File does not exist: ${path}`)
    return { modified: toDiffSide(modified), original: toDiffSide(original) }
  }

  /** The newest commits of HEAD, and whether there are more. */
  async commits(
    path: string,
    limit: number,
    signal: AbortSignal,
  ): Promise<{ readonly commits: GitCommit[]; readonly has_more: boolean }> {
    await using repository = await this.#openRepository(path, signal)
    const head = await repository?.runText(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'])
    if (repository === undefined || head === undefined) return { commits: [], has_more: false }
    const format = `--format=tformat:${commitFields.join('%x00')}`
    const fields = await repository.runFields(['log', '-z', `--max-count=${limit + 1}`, format, head, '--'])
    const commits: GitCommit[] = []
    for (let index = 0; index + commitFields.length <= fields.length; index += commitFields.length) {
      const [sha = '', short_sha = '', subject = '', author = '', timestamp = ''] = fields.slice(index)
      commits.push({ sha, short_sha, subject, author, timestamp })
    }
    return { commits: commits.slice(0, limit), has_more: commits.length > limit }
  }

  /** Changes of a commit; of a merge those against its first parent. */
  async commitChanges(path: string, commit: string, signal: AbortSignal): Promise<GitChange[]> {
    await using repository = await this.#openRepository(path, signal)
    if (repository === undefined) return []
    const range = await resolveCommitRange(repository, commit)
    const format = ['-r', '-z', '--no-commit-id', '--name-status', '--relative', '--no-renames']
    return mergeByPath(parseChanges(await repository.runFields(['diff-tree', ...format, ...range])))
  }

  async #openRepository(path: string, signal: AbortSignal): Promise<GitRepository | undefined> {
    const directory = await resolveDirectory(path)
    return directory === undefined ? undefined : await GitRepository.open(directory, this.#env, signal)
  }

  /** None where there is no repository. */
  async #changesIn(
    directory: string,
    findBase: (repository: GitRepository) => Promise<string>,
    signal: AbortSignal,
  ): Promise<GitChange[]> {
    await using repository = await GitRepository.open(directory, this.#env, signal)
    return repository === undefined ? [] : await changesSince(repository, await findBase(repository))
  }

  /** A failure in one repository does not affect the others. `ref` may exist in the outer repository only. */
  async #nestedChanges(
    directory: string,
    name: string,
    ref: string | undefined,
    signal: AbortSignal,
  ): Promise<GitChange[]> {
    try {
      const findBase = async (repository: GitRepository) => {
        const base = ref === undefined ? undefined : await resolveCommit(repository, ref)
        return base ?? (await resolveBase(repository, undefined))
      }
      const changes = await this.#changesIn(join(directory, name), findBase, signal)
      return changes.map(({ status, path }) => ({ status, path: `${name}/${path}` }))
    } catch (error) {
      if (error instanceof Problem) return []
      throw error
    }
  }

  /** Names of subdirectories with their own repository. Does not follow links. */
  async #listNestedRepositories(directory: string): Promise<string[]> {
    const entries: Dirent[] = await readdir(directory, { withFileTypes: true }).catch(() => [])
    const names = entries
      .filter((entry) => entry.isDirectory() && entry.name !== '.git')
      .map(({ name }) => name)
    const repositories: string[] = []
    for (const name of names.sort()) {
      if (repositories.length < maxNested && (await hasRepository(join(directory, name))))
        repositories.push(name)
    }
    return repositories
  }
}

/** Tracked files that differ from a tree, and files that are neither tracked nor ignored. */
async function changesSince(repository: GitRepository, base: string): Promise<GitChange[]> {
  const diff = ['diff', '-z', '--name-status', '--relative', '--no-renames', base, '--']
  const tracked = parseChanges(await repository.runFields(diff, { comparesFiles: true }))
  const others = await repository.runFields(['ls-files', '-z', '--others', '--exclude-standard'], {
    comparesFiles: true,
  })
  // A directory is its own repository, or one with nothing in it.
  const added = others
    .filter((path) => !path.endsWith('/'))
    .map((path) => ({ status: 'ADDED', path }) as const)
  return [...tracked, ...added]
}

/** The commit or tree that the work is compared with. */
async function resolveBase(repository: GitRepository, ref: string | undefined): Promise<string> {
  if (ref !== undefined) {
    const namedCommit = await resolveCommit(repository, ref)
    if (namedCommit !== undefined) return namedCommit
    if (ref === 'HEAD') return await emptyTree(repository)
    throw new Problem('bad_request', 'The ref names no commit')
  }
  const head = await resolveCommit(repository, 'HEAD')
  if (head === undefined) return await emptyTree(repository)
  const remoteBase = await findBranchCommit(
    repository,
    ['origin/HEAD', 'origin/main', 'origin/master'],
    'remotes',
  )
  if (remoteBase === undefined) {
    const local = await findBranchCommit(repository, ['main', 'master'], 'heads')
    return local === undefined ? head : await forkPoint(repository, head, local)
  }
  // Work that is not pushed is compared with what is; a pushed branch with the default branch.
  const upstream = await resolveCommit(repository, '@{upstream}')
  const isPushed = upstream === head && !(await hasUncommittedWork(repository))
  return await forkPoint(repository, head, upstream === undefined || isPushed ? remoteBase : upstream)
}

/** Files that git does not follow are listed with any base, so they do not decide about it. */
async function hasUncommittedWork(repository: GitRepository): Promise<boolean> {
  const options = ['status', '--porcelain', '--untracked-files=no', '-z']
  const fields = await repository.runFields(options, { comparesFiles: true })
  return fields.length > 0
}

async function findBranchCommit(
  repository: GitRepository,
  names: readonly string[],
  kind: 'heads' | 'remotes',
): Promise<string | undefined> {
  for (const name of names) {
    const commit = await resolveCommit(repository, `refs/${kind}/${name}`)
    if (commit !== undefined) return commit
  }
  return undefined
}

async function forkPoint(repository: GitRepository, head: string, other: string): Promise<string> {
  return (await repository.runText(['merge-base', head, other])) ?? head
}

/** The parent of a commit, or the empty tree, and the commit. */
async function resolveCommitRange(repository: GitRepository, commit: string): Promise<[string, string]> {
  const after = commitIdPattern.test(commit) ? await resolveCommit(repository, commit) : undefined
  if (after === undefined) throw commitNotFound()
  return [(await resolveCommit(repository, `${after}^1`)) ?? (await emptyTree(repository)), after]
}

export async function resolveCommit(repository: GitRepository, name: string): Promise<string | undefined> {
  if (name.startsWith('-') || name.includes('\0')) return undefined
  return await repository.runText(['rev-parse', '--verify', '--quiet', `${name}^{commit}`])
}

/** By the digest that the repository uses. */
export async function emptyTree(repository: GitRepository): Promise<string> {
  const id = await repository.runText(['hash-object', '-t', 'tree', '/dev/null'])
  if (id === undefined) throw new Problem('bad_request', 'git failed: there is no empty tree')
  return id
}

/** Pairs of a letter and a path. */
function parseChanges(fields: readonly string[]): GitChange[] {
  const changes: GitChange[] = []
  for (let index = 0; index + 1 < fields.length; index += 2) {
    const [letter = '', path = ''] = fields.slice(index, index + 2)
    changes.push({ status: statusByLetter[letter.slice(0, 1)] ?? 'UPDATED', path })
  }
  return changes
}

/** Other letters: changed, of another type, not merged. */
const statusByLetter: Readonly<Record<string, GitStatus>> = { A: 'ADDED', D: 'DELETED' }

/** By path, each once: a path that is both deleted and untracked is updated. */
function mergeByPath(changes: readonly GitChange[]): GitChange[] {
  const byPath = new Map<string, GitChange>()
  for (const change of changes) {
    const existing = byPath.get(change.path)
    const isBoth = existing !== undefined && existing.status !== change.status
    byPath.set(change.path, isBoth ? { status: 'UPDATED', path: change.path } : change)
  }
  return [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))
}

/** Clients compare line by line: no final line feed, and nothing for a file that is missing. */
function toDiffSide(text: string | null): string {
  return (text ?? '').replaceAll('\r\n', '\n').replace(/\n$/, '')
}

function commitNotFound(): Problem {
  return new Problem('bad_request', 'There is no such commit')
}

/** Undefined when there is nothing; a Problem when it is no directory. */
async function resolveDirectory(path: string): Promise<string | undefined> {
  const directory = await resolvePath(path)
  const stats = await stat(directory).catch(() => undefined)
  if (stats === undefined) return undefined
  if (!stats.isDirectory()) throw new Problem('bad_request', 'The path is not a directory')
  return directory
}

/** The nearest existing directory and the rest of the path. Does not follow the file itself. */
async function locateFile(path: string): Promise<{ readonly directory: string; readonly name: string }> {
  const resolvedPath = await resolvePath(path)
  let directory = dirname(resolvedPath)
  let name = basename(resolvedPath)
  while (!(await isDirectory(directory)) && directory !== dirname(directory)) {
    name = `${basename(directory)}/${name}`
    directory = dirname(directory)
  }
  return { directory: await realpath(directory), name }
}

/** A path that lost its first slash in a URL is tried with a slash first, then as a relative path. */
async function resolvePath(path: string): Promise<string> {
  if (path.includes('\0')) throw new Problem('bad_request', 'The path contains a NUL byte')
  if (isAbsolute(path)) return resolve(path)
  const existsBelowRoot = await lstat(`/${path}`).then(
    () => true,
    () => false,
  )
  return existsBelowRoot ? resolve(`/${path}`) : resolve(path)
}
