import { open, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Problem } from '@slipway/protocol/client'
import { copyIndex } from '@slipway/shared/git'
import { firstChars } from '@slipway/shared/text'
import { makeTemporaryFolder } from '@slipway/shared/tool-files'
import type { Git } from './git.ts'

/** The author of the commits of a snapshot, instead of the user. */
const identity = {
  GIT_AUTHOR_NAME: 'slipway',
  GIT_AUTHOR_EMAIL: 'slipway@localhost',
  GIT_COMMITTER_NAME: 'slipway',
  GIT_COMMITTER_EMAIL: 'slipway@localhost',
}

/** Above this size of a repository its history stays where it is. */
const maxHistoryKib = 200 * 1024

/** The state of a working tree as a commit on no branch. */
export interface Snapshot {
  readonly commit: string
  readonly tree: string
  /** The commit that was checked out; undefined in a repository without commits. */
  readonly head: string | undefined
  readonly branch: string
  /** Whether there are uncommitted changes. */
  readonly isDirty: boolean
  /** Whether the commit has the history of the repository. */
  readonly hasHistory: boolean
}

/**
 * Stores the tracked and untracked files of a working tree, without the ignored ones. The index and the
 * branches of the user stay as they are: only objects are added, which git removes in time.
 */
export async function takeSnapshot(git: Git, signal: AbortSignal): Promise<Snapshot> {
  const head = await git.find(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'])
  const tree = await withIndex(git, async (env) => {
    await updateIndex(git, env, signal)
    return await git.run(['write-tree'], { env })
  })
  const isDirty = head === undefined || tree !== (await git.run(['rev-parse', `${head}^{tree}`]))
  const hasHistory = head !== undefined && (await mayCopyHistory(git))
  const branch = (await git.find(['symbolic-ref', '--quiet', '--short', 'HEAD'])) ?? 'main'
  const message = `The working tree of the user\n\nSlipway-Head: ${head ?? 'none'}\n`
  const parents = hasHistory && head !== undefined ? ['-p', head] : []
  const commit = await git.run(['commit-tree', tree, ...parents, '-F', '-'], {
    env: identity,
    input: message,
  })
  return { commit, tree, head, branch, isDirty, hasHistory }
}

/** Stores all files, as `git add --all` does, which looks into submodules by starting git in them. */
async function updateIndex(
  git: Git,
  env: { readonly GIT_INDEX_FILE: string },
  signal: AbortSignal,
): Promise<void> {
  // Times that a copy of the index does not have are no changes.
  await git.try(['update-index', '-q', '--refresh'], { env, signal })
  const lists = [
    ['diff-files', '-z', '--name-only'],
    ['ls-files', '-z', '--others', '--exclude-standard'],
  ]
  for (const args of lists) {
    const { code, stdout, stderr } = await git.try(args, { env, signal })
    if (code !== 0) throw new Problem('bad_request', `git ${args[0]} failed: ${firstChars(stderr, 500)}`)
    if (stdout.length === 0) continue
    // A repository within the tree is a name with a slash at its end.
    const input = Buffer.from(stdout.toString('latin1').replaceAll('/\0', '\0'), 'latin1')
    await git.run(['update-index', '--add', '--remove', '--replace', '-z', '--stdin'], { env, signal, input })
  }
}

/** Runs with a copy of the user's index, in `GIT_INDEX_FILE`. */
export async function withIndex<T>(
  git: Git,
  work: (env: { readonly GIT_INDEX_FILE: string }) => Promise<T>,
): Promise<T> {
  const directory = await makeTemporaryFolder('index')
  try {
    const file = join(directory, 'index')
    const own = resolve(git.directory, await git.run(['rev-parse', '--git-path', 'index']))
    // A new repository has none.
    await copyIndex(own, file).catch(() => undefined)
    return await work({ GIT_INDEX_FILE: file })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function mayCopyHistory(git: Git): Promise<boolean> {
  if ((await git.run(['rev-parse', '--is-shallow-repository'])) === 'true') return false
  const counts = await git.run(['count-objects', '-v'])
  const sizes = [...counts.matchAll(/^size(?:-pack)?: (\d+)$/gm)].map(([, size]) => Number(size))
  return sizes.reduce((sum, size) => sum + size, 0) <= maxHistoryKib
}

/** Writes everything that a snapshot consists of into a file, as a pack of git. */
export async function writePack(
  git: Git,
  { commit }: Snapshot,
  file: string,
  signal: AbortSignal,
): Promise<void> {
  await using target = await open(file, 'wx', 0o600)
  const { code } = await git.try(['pack-objects', '--revs', '--stdout', '--quiet'], {
    input: `${commit}\n`,
    output: target.fd,
    signal,
  })
  if (code !== 0) throw new Problem('bad_request', 'git pack-objects failed: the repository may be damaged.')
}
