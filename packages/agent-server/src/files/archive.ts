import { once } from 'node:events'
import { realpath, stat } from 'node:fs/promises'
import { basename, relative } from 'node:path'
import { Workspace } from '@slipway/agent'
import { invalid, Problem, redact } from '@slipway/protocol'
import { baseOf, plainly } from '../git/git-reader.ts'
import { Repository } from '../git/repository.ts'
import { absolute, refusalOf } from './file-access.ts'

/** Longest patch: it is made in memory. */
const maxPatchBytes = 256 * 1024 * 1024

/** What can be made again from the rest. */
const usualExcludes = [
  ...['node_modules', '.venv', 'venv', '__pycache__', '*.pyc', '.pytest_cache', '.mypy_cache', '.ruff_cache'],
  ...[
    '.tox',
    '.cache',
    '.npm',
    '.next',
    '.turbo',
    '.gradle',
    'target',
    'dist',
    'build',
    'coverage',
    '.DS_Store',
  ],
]

/** Where git and its like keep passwords; a repository's own settings may have one in the address of a remote. */
const credentials = [
  ...['.git-credentials', '.netrc', '_netrc', '.git/config', '.git/config.worktree', '.git/credentials'],
  ...['.git/modules/*/config', '.git/worktrees/*/config.worktree'],
]

interface Options {
  readonly path: string
  /** What the server keeps for itself; no part of a directory that happens to hold it. */
  readonly kept: string
  readonly useDefaultExcludes: boolean
  readonly exclude: readonly string[]
  /** What git and tar get of the environment. */
  readonly env: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

export interface Archive {
  /** `x-archive-*`, percent-encoded. */
  readonly headers: Readonly<Record<string, string>>
  readonly filename: string
  readonly chunks: AsyncIterable<Buffer>
}

/**
 * A directory as a gzip tar file, links as links, made while it is sent: when it cannot be made to its end the reader is cut off. Files in
 * which credentials are kept are never in it.
 */
export async function tarOf(options: Options): Promise<Archive> {
  const directory = await directoryOf(options.path)
  await using repository = await Repository.find(directory, options.env, options.signal)
  const headers = repository === undefined ? {} : await headersOf(repository)
  const own = await ownIn(directory, options.kept)
  const patterns = [
    ...excludesOf(options),
    ...(own === undefined ? [] : [`./${own.replaceAll(/[*?[\]\\]/g, '\\$&')}`]),
  ]
  const args = patterns.map((pattern) => `--exclude=${pattern}`)
  const chunks = output(directory, ['-C', directory, ...args, '-czf', '-', '--', '.'], options)
  return { headers: encoded(headers), filename: `${basename(directory)}.tar.gz`, chunks }
}

/**
 * What the working tree of a repository has that a commit has not, new files too, as a patch for `git apply`. Problems `bad_request`: no
 * repository, no such commit, or too much.
 */
export async function patchOf(options: Options & { readonly baseRef: string | undefined }): Promise<Archive> {
  const { path, env, signal, baseRef } = options
  if (baseRef?.startsWith('-')) throw new Problem('bad_request', 'The base ref names no commit')
  const directory = await directoryOf(path)
  await using repository = await Repository.find(directory, env, signal)
  if (repository === undefined)
    throw new Problem('bad_request', 'The directory is in no git repository; ask for the format tar.gz')
  const base = await baseOf(repository, baseRef)
  const own = await ownIn(directory, options.kept)
  const excludes = [
    ...excludesOf(options).flatMap((pattern) => [
      `:(exclude,glob)**/${pattern}`,
      `:(exclude,glob)**/${pattern}/**`,
    ]),
    ...(own === undefined ? [] : [`:(exclude,literal)${own}`]),
  ]
  // In a copy of the index, so that the repository stays as it is.
  await repository.list(['add', '--intent-to-add', '--', '.', ...excludes], { comparesFiles: true })
  const diff = ['diff', '--binary', '--full-index', '--relative', ...plainly, base, '--', '.', ...excludes]
  const patch = await repository.bytes(diff, maxPatchBytes + 1, { comparesFiles: true })
  if (patch === undefined) throw new Problem('bad_request', 'git failed: there is no patch')
  if (patch.length > maxPatchBytes)
    throw new Problem('bad_request', 'The patch is larger than 256 MiB; ask for the format tar.gz')
  const headers = {
    ...(await headersOf(repository)),
    'x-archive-base-commit': base,
    ...(baseRef === undefined ? {} : { 'x-archive-base-ref': baseRef }),
  }
  const chunks = (async function* () {
    if (patch.length > 0) yield patch
  })()
  return { headers: encoded(headers), filename: `${basename(directory)}.patch`, chunks }
}

async function directoryOf(path: string): Promise<string> {
  try {
    const directory = await realpath(absolute(path))
    if (!(await stat(directory)).isDirectory())
      throw new Problem('bad_request', 'The path is not a directory')
    return directory
  } catch (error) {
    throw refusalOf(error, 'not_found')
  }
}

/** What is the server's own in a directory, from there: all that it keeps, of that itself its key; undefined when there is nothing. */
async function ownIn(directory: string, kept: string): Promise<string | undefined> {
  const way = relative(directory, await realpath(kept).catch(() => kept))
  if (way === '') return 'secret.key'
  return way === '..' || way.startsWith('../') ? undefined : way
}

/** A slash at the end means a directory, which patterns here may always be. */
function excludesOf({ useDefaultExcludes, exclude }: Options): string[] {
  const at = exclude.findIndex((pattern) => pattern.includes('\0'))
  if (at >= 0) throw invalid(['query', 'exclude', at], 'The pattern contains a NUL byte')
  const given = exclude
    .map((pattern) => pattern.replace(/^\/+|\/+$/g, ''))
    .filter((pattern) => pattern !== '')
  return [...credentials, ...(useDefaultExcludes ? usualExcludes : []), ...given]
}

async function headersOf(repository: Repository): Promise<Record<string, string>> {
  const asked = {
    'x-archive-repo-remote': ['remote', 'get-url', 'origin'],
    'x-archive-repo-branch': ['symbolic-ref', '--short', '--quiet', 'HEAD'],
    'x-archive-repo-head-commit': ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'],
    'x-archive-repo-root': ['rev-parse', '--show-toplevel'],
  }
  const headers: Record<string, string> = {}
  for (const [name, args] of Object.entries(asked)) {
    const answer = await repository.ask(args)
    if (answer) headers[name] = String(redact(answer))
  }
  return headers
}

function encoded(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers)
  return Object.fromEntries(entries.map(([name, value]) => [name, encodeURIComponent(value.toWellFormed())]))
}

/** What tar prints. It is ended when nobody reads it any more. */
async function* output(
  directory: string,
  args: readonly string[],
  { env, signal }: Options,
): AsyncGenerator<Buffer> {
  await using workspace = await Workspace.open({ directory, env: { ...env, LC_ALL: 'C' } })
  const process = workspace.spawn('tar', args)
  let isMissing = false
  process.once('error', () => {
    isMissing = true
  })
  const closed = once(process, 'close', { signal }).catch(() => [undefined])
  process.stderr.resume()
  for await (const chunk of process.stdout) yield chunk
  const [code] = await closed
  if (isMissing) throw new Problem('bad_request', 'tar is not installed')
  // 1: a file was changed while it was read.
  if (code !== 0 && code !== 1) throw new Problem('conflict', 'The directory could not be read to its end')
}
