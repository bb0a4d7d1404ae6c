import { basename, join, relative } from 'node:path'
import { invalidInput, Problem } from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'
import { readdir, realpath, stat } from '@slipway/shared/tool-files'
import { emptyTree, GitRepository, hasRepository, resolveCommit } from '../git/module.ts'
import { assertAbsolutePath, toFileProblem } from './file-access.ts'
import { compileGlobs } from './globs.ts'
import { assertServedFolder } from './server-files.ts'
import { type Packed, tarStream } from './tar.ts'

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

const tarExcludes = ['.git', ...defaultExcludes]
const manifestName = 'archive_manifest.json'

/** Files that contain passwords; a repository's config may have one in a remote URL. */
const credentialPatterns = [
  ...['.git-credentials', '.netrc', '_netrc', '.git/config', '.git/config.worktree', '.git/credentials'],
  '.git/logs',
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
 * A directory as a gzip tar stream below its name, with a manifest, without links and credential files. Where
 * the directory is in no repository and has exactly one below it, that one is meant. A failure ends the
 * stream early.
 */
export async function createTarArchive(options: ArchiveOptions): Promise<Archive> {
  const given = await resolveDirectory(options.path)
  const source = await openSource(given, options)
  await using repository = source.repository
  const { directory } = source
  await assertServedFolder(directory, options.dataDirectory)
  const headers = repository === undefined ? {} : await repositoryHeaders(repository, directory)
  const ownDataPath = await findOwnDataPath(directory, options.dataDirectory)
  const excludes = shownPatterns(options, tarExcludes)
  const isExcluded = compileGlobs([...credentialPatterns, ...excludes])
  const paths = await listFiles(directory, isExcluded, ownDataPath, options.signal)
  const name = basename(directory) || 'root'
  const createManifest = ({ files, bytes }: Packed) => {
    const use_default_excludes = options.useDefaultExcludes
    const counts = { file_count: files, total_bytes: bytes }
    return JSON.stringify(
      { format: 'tar.gz', source: name, ...counts, use_default_excludes, excludes },
      null,
      2,
    )
  }
  const texts = { [manifestName]: createManifest }
  const chunks = tarStream({ directory, name, paths, texts }, options.signal)
  return { headers: encodeHeaders(headers), filename: `${name}.tar.gz`, chunks }
}

/**
 * The difference of the working tree, new files included, to a commit, as a patch for `git apply` at the root
 * of the repository. Problems `bad_request`: no repository, no such commit, or too large.
 */
export async function createPatch(
  options: ArchiveOptions & { readonly baseRef: string | undefined },
): Promise<Archive> {
  const { path, baseRef } = options
  if (baseRef?.startsWith('-')) throw new Problem('bad_request', "base_ref must not start with '-'")
  const given = await resolveDirectory(path)
  const source = await openSource(given, options)
  await using repository = source.repository
  const { directory } = source
  await assertServedFolder(directory, options.dataDirectory)
  if (repository === undefined)
    throw new Problem(
      'bad_request',
      'Not a git repository, nor a directory of one; ask for the format tar.gz',
    )
  const base = await findPatchBase(repository, baseRef)
  const ownDataPath = await findOwnDataPath(directory, options.dataDirectory)
  const excludes = [
    ...[...credentialPatterns, ...shownPatterns(options, defaultExcludes)].flatMap((pattern) => [
      `:(exclude,glob)**/${pattern}`,
      `:(exclude,glob)**/${pattern}/**`,
    ]),
    ...(ownDataPath === undefined ? [] : [`:(exclude,literal)${ownDataPath}`]),
  ]
  // In a copy of the index, so that the repository stays as it is.
  const untracked = ['ls-files', '-z', '--others', '--exclude-standard', '--', '.', ...excludes]
  const added = await repository.runFields(untracked, { comparesFiles: true })
  const paths = ['--literal-pathspecs', 'add', '--intent-to-add', '--pathspec-from-file=-']
  if (added.length > 0)
    await repository.runFields([...paths, '--pathspec-file-nul'], {
      comparesFiles: true,
      input: added.join('\0'),
    })
  const format = ['--binary', '--full-index', '--no-relative', '--no-renames']
  const diff = ['diff', ...format, base.tree, '--', '.', ...excludes]
  const patch = await repository.runBytes(diff, maxPatchBytes + 1, { comparesFiles: true })
  if (patch === undefined) throw new Problem('bad_request', 'git failed: there is no patch')
  if (patch.length > maxPatchBytes)
    throw new Problem('bad_request', 'The patch is larger than 256 MiB; ask for the format tar.gz')
  const headers = {
    ...(await repositoryHeaders(repository, directory)),
    ...(base.isCommit ? { 'x-archive-base-commit': base.tree, 'x-archive-base-ref': baseRef ?? 'auto' } : {}),
  }
  const chunks = (async function* () {
    if (patch.length > 0) yield patch
  })()
  return { headers: encodeHeaders(headers), filename: `${basename(directory)}.patch`, chunks }
}

/**
 * What a patch is made against: what `baseRef` names; else HEAD where no branch is checked out, the branch at
 * the origin, or what it has in common with the main branch there; else nothing.
 */
async function findPatchBase(
  repository: GitRepository,
  baseRef: string | undefined,
): Promise<{ readonly tree: string; readonly isCommit: boolean }> {
  if (baseRef !== undefined) {
    const named = await resolveCommit(repository, baseRef)
    if (named === undefined)
      throw new Problem('bad_request', `The base_ref could not be resolved to a commit`)
    return { tree: named, isCommit: true }
  }
  const head = await resolveCommit(repository, 'HEAD')
  const branch = await repository.runText(['symbolic-ref', '--short', '--quiet', 'HEAD'])
  if (head !== undefined && !branch) return { tree: head, isCommit: true }
  const remote = branch && (await resolveCommit(repository, `refs/remotes/origin/${branch}`))
  if (remote) return { tree: remote, isCommit: true }
  for (const name of head === undefined ? [] : ['origin/HEAD', 'origin/main', 'origin/master']) {
    const main = await resolveCommit(repository, `refs/remotes/${name}`)
    const common = main && (await repository.runText(['merge-base', String(head), main]))
    if (common) return { tree: common, isCommit: true }
  }
  return { tree: await emptyTree(repository), isCommit: false }
}

/** How deep a repository is looked for below a directory. */
const maxDepth = 3

/** The directory with the repository that it is in, or the only repository below one that is in none. */
async function openSource(
  directory: string,
  { env, signal }: ArchiveOptions,
): Promise<{ readonly directory: string; readonly repository: GitRepository | undefined }> {
  const repository = await GitRepository.open(directory, env, signal)
  if (repository !== undefined) return { directory, repository }
  const found: string[] = []
  const search = async (parent: string, depth: number): Promise<void> => {
    const entries = await readdir(parent, { withFileTypes: true }).catch(() => [])
    for (const entry of entries) {
      if (found.length > 1 || signal.aborted) return
      if (!entry.isDirectory() || entry.name.startsWith('.') || defaultExcludes.includes(entry.name)) continue
      const path = join(parent, entry.name)
      if (await hasRepository(path)) found.push(path)
      else if (depth < maxDepth) await search(path, depth + 1)
    }
  }
  await search(directory, 1)
  const [only] = found
  return only !== undefined && found.length === 1
    ? { directory: only, repository: await GitRepository.open(only, env, signal) }
    : { directory, repository: undefined }
}

async function resolveDirectory(path: string): Promise<string> {
  try {
    const directory = await realpath(assertAbsolutePath(path))
    if (!(await stat(directory)).isDirectory()) throw new Problem('bad_request', 'Path is not a directory')
    return directory
  } catch (error) {
    throw toFileProblem(error, 'not_found')
  }
}

/** Relative path of server data to leave out, if any. */
async function findOwnDataPath(directory: string, dataDirectory: string): Promise<string | undefined> {
  const relativePath = relative(directory, await realpath(dataDirectory).catch(() => dataDirectory))
  return relativePath === '..' || relativePath.startsWith('../') ? undefined : relativePath
}

/** The patterns in effect, those of the caller last, without a slash at the end: all may be directories. */
function shownPatterns(
  { useDefaultExcludes, exclude }: ArchiveOptions,
  defaults: readonly string[],
): string[] {
  const index = exclude.findIndex((pattern) => pattern.includes('\0'))
  if (index >= 0) throw invalidInput(['query', 'exclude', index], 'The pattern contains a NUL byte')
  const patterns = exclude
    .map((pattern) => pattern.replace(/^\/+|\/+$/g, ''))
    .filter((pattern) => pattern !== '')
  return [...(useDefaultExcludes ? defaults : []), ...patterns]
}

/** Files and directories (with a slash at their end) below a directory, links and special files left out. */
async function listFiles(
  directory: string,
  isExcluded: (path: string) => boolean,
  ownDataPath: string | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  const paths: string[] = []
  const list = async (parent: string): Promise<void> => {
    signal.throwIfAborted()
    const entries = await readdir(join(directory, parent), { withFileTypes: true }).catch(() => [])
    for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
      const path = `${parent}${entry.name}`
      if (path === ownDataPath || path === manifestName || isExcluded(path)) continue
      if (entry.isFile()) paths.push(path)
      else if (entry.isDirectory()) {
        paths.push(`${path}/`)
        await list(`${path}/`)
      }
    }
  }
  await list('')
  return paths
}

/** Of a directory that has a repository itself. */
async function repositoryHeaders(
  repository: GitRepository,
  directory: string,
): Promise<Record<string, string>> {
  if (!(await hasRepository(directory))) return {}
  const queries = {
    'x-archive-repo-remote': ['remote', 'get-url', 'origin'],
    'x-archive-branch': ['symbolic-ref', '--short', '--quiet', 'HEAD'],
    'x-archive-head-commit': ['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'],
    'x-archive-repo-root': ['rev-parse', '--show-toplevel'],
  }
  const headers: Record<string, string> = {}
  for (const [name, args] of Object.entries(queries)) {
    const value = await repository.runText(args)
    if (value) headers[name] = String(redact(value))
  }
  return { 'x-archive-branch': 'DETACHED', ...headers }
}

function encodeHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers)
  return Object.fromEntries(entries.map(([name, value]) => [name, encodeURIComponent(value.toWellFormed())]))
}
