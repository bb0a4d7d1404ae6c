import { once } from 'node:events'
import { basename, relative } from 'node:path'
import { Workspace } from '@slipway/agent'
import { invalidInput, Problem } from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'
import { realpath, stat } from '@slipway/shared/tool-files'
import { plainDiffOptions, resolveBase } from '../git/git-reader.ts'
import { GitRepository } from '../git/repository.ts'
import { assertAbsolutePath, toFileProblem } from './file-access.ts'

/** Longest patch: it is made in memory. */
const maxPatchBytes = 256 * 1024 * 1024

/** Directories that can be generated again. */
const defaultExcludes = [
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

/** Files that contain passwords; a repository's config may have one in a remote URL. */
const credentialPatterns = [
  ...['.git-credentials', '.netrc', '_netrc', '.git/config', '.git/config.worktree', '.git/credentials'],
  ...['.git/modules/*/config', '.git/worktrees/*/config.worktree'],
]

interface ArchiveOptions {
  readonly path: string
  /** Data directory of the server; left out of an archive of a directory above it. */
  readonly dataDirectory: string
  readonly useDefaultExcludes: boolean
  readonly exclude: readonly string[]
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
 * A directory as a gzip tar stream without credential files, links as links. A failure ends the stream early.
 */
export async function createTarArchive(options: ArchiveOptions): Promise<Archive> {
  const directory = await resolveDirectory(options.path)
  await using repository = await GitRepository.open(directory, options.env, options.signal)
  const headers = repository === undefined ? {} : await repositoryHeaders(repository)
  const ownDataPath = await findOwnDataPath(directory, options.dataDirectory)
  const ownPattern = ownDataPath && `./${ownDataPath.replaceAll(/[*?[\]\\]/g, '\\$&')}`
  const patterns = [...excludePatterns(options), ownPattern].filter((pattern) => pattern !== undefined)
  const args = patterns.map((pattern) => `--exclude=${pattern}`)
  const chunks = runTar(directory, ['-C', directory, ...args, '-czf', '-', '--', '.'], options)
  return { headers: encodeHeaders(headers), filename: `${basename(directory)}.tar.gz`, chunks }
}

/**
 * The difference of the working tree, new files included, to a commit, as a patch for `git apply`. Problems
 * `bad_request`: no repository, no such commit, or too large.
 */
export async function createPatch(
  options: ArchiveOptions & { readonly baseRef: string | undefined },
): Promise<Archive> {
  const { path, env, signal, baseRef } = options
  if (baseRef?.startsWith('-')) throw new Problem('bad_request', 'The base ref names no commit')
  const directory = await resolveDirectory(path)
  await using repository = await GitRepository.open(directory, env, signal)
  if (repository === undefined)
    throw new Problem('bad_request', 'The directory is in no git repository; ask for the format tar.gz')
  const base = await resolveBase(repository, baseRef)
  const ownDataPath = await findOwnDataPath(directory, options.dataDirectory)
  const excludes = [
    ...excludePatterns(options).flatMap((pattern) => [
      `:(exclude,glob)**/${pattern}`,
      `:(exclude,glob)**/${pattern}/**`,
    ]),
    ...(ownDataPath === undefined ? [] : [`:(exclude,literal)${ownDataPath}`]),
  ]
  // In a copy of the index, so that the repository stays as it is.
  await repository.runFields(['add', '--intent-to-add', '--', '.', ...excludes], { comparesFiles: true })
  const format = ['--binary', '--full-index', '--relative', ...plainDiffOptions]
  const diff = ['diff', ...format, base, '--', '.', ...excludes]
  const patch = await repository.runBytes(diff, maxPatchBytes + 1, { comparesFiles: true })
  if (patch === undefined) throw new Problem('bad_request', 'git failed: there is no patch')
  if (patch.length > maxPatchBytes)
    throw new Problem('bad_request', 'The patch is larger than 256 MiB; ask for the format tar.gz')
  const headers = {
    ...(await repositoryHeaders(repository)),
    'x-archive-base-commit': base,
    ...(baseRef === undefined ? {} : { 'x-archive-base-ref': baseRef }),
  }
  const chunks = (async function* () {
    if (patch.length > 0) yield patch
  })()
  return { headers: encodeHeaders(headers), filename: `${basename(directory)}.patch`, chunks }
}

async function resolveDirectory(path: string): Promise<string> {
  try {
    const directory = await realpath(assertAbsolutePath(path))
    if (!(await stat(directory)).isDirectory())
      throw new Problem('bad_request', 'The path is not a directory')
    return directory
  } catch (error) {
    throw toFileProblem(error, 'not_found')
  }
}

/**
 * Relative path of server data to leave out, if any; of the data directory itself only the key is left out.
 */
async function findOwnDataPath(directory: string, dataDirectory: string): Promise<string | undefined> {
  const relativePath = relative(directory, await realpath(dataDirectory).catch(() => dataDirectory))
  if (relativePath === '') return 'secret.key'
  return relativePath === '..' || relativePath.startsWith('../') ? undefined : relativePath
}

/** A slash at the end means a directory, which patterns here may always be. */
function excludePatterns({ useDefaultExcludes, exclude }: ArchiveOptions): string[] {
  const index = exclude.findIndex((pattern) => pattern.includes('\0'))
  if (index >= 0) throw invalidInput(['query', 'exclude', index], 'The pattern contains a NUL byte')
  const patterns = exclude
    .map((pattern) => pattern.replace(/^\/+|\/+$/g, ''))
    .filter((pattern) => pattern !== '')
  return [...credentialPatterns, ...(useDefaultExcludes ? defaultExcludes : []), ...patterns]
}

async function repositoryHeaders(repository: GitRepository): Promise<Record<string, string>> {
  const queries = {
    'x-archive-repo-remote': ['remote', 'get-url', 'origin'],
    'x-archive-repo-branch': ['symbolic-ref', '--short', '--quiet', 'HEAD'],
    'x-archive-repo-head-commit': ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'],
    'x-archive-repo-root': ['rev-parse', '--show-toplevel'],
  }
  const headers: Record<string, string> = {}
  for (const [name, args] of Object.entries(queries)) {
    const value = await repository.runText(args)
    if (value) headers[name] = String(redact(value))
  }
  return headers
}

function encodeHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers)
  return Object.fromEntries(entries.map(([name, value]) => [name, encodeURIComponent(value.toWellFormed())]))
}

/** Output of tar, which is ended when the reader stops. */
async function* runTar(
  directory: string,
  args: readonly string[],
  { env, signal }: ArchiveOptions,
): AsyncGenerator<Buffer> {
  await using workspace = await Workspace.open({ directory, env: { ...env, LC_ALL: 'C' } })
  const tar = workspace.spawn('tar', args)
  let isMissing = false
  tar.once('error', () => {
    isMissing = true
  })
  const closed = once(tar, 'close', { signal }).catch(() => [undefined])
  tar.stderr.resume()
  for await (const chunk of tar.stdout) yield chunk
  const [code] = await closed
  if (isMissing) throw new Problem('bad_request', 'tar is not installed')
  // 1: a file was changed while it was read.
  if (code !== 0 && code !== 1) throw new Problem('conflict', 'The directory could not be read to its end')
}
