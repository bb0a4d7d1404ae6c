import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { Workspace } from '@slipway/agent'
import { isWithin } from '@slipway/shared/fs'
import { RepositoryView } from '@slipway/shared/git'
import { type GitCommand, gitCommand } from '@slipway/shared/process'
import { lstat, makeDirectory, readdir, rm } from '@slipway/shared/tool-files'

const gitTimeoutMs = 30_000
const checkOutTimeoutMs = 10 * 60_000

/** By their paths: a request that is repeated waits for the first one. */
const beingMade = new Map<string, Promise<string | undefined>>()

export interface Git extends AsyncDisposable {
  run(...args: string[]): Promise<{ readonly exitCode: number | null; readonly text: string }>
  /** Writes the files of HEAD. */
  checkOut(): Promise<boolean>
}

/** Git in a directory, with the rights of tools. */
export async function openGit(
  directory: string,
  environment: Readonly<Record<string, string>>,
): Promise<Git> {
  const workspace = await Workspace.open({ directory, env: environment })
  const start = ({ command, args, env }: GitCommand, timeoutMs = gitTimeoutMs) =>
    workspace.run(command, args, { env, timeoutMs })
  return {
    async run(...args) {
      const { exitCode, stdout } = await start(gitCommand(args))
      return { exitCode, text: stdout.toString().trim() }
    },
    async checkOut() {
      await using view = await RepositoryView.open((command) => start(command))
      if (view === undefined) return false
      const command = gitCommand(['reset', '--hard', '--quiet'], { env: view.env })
      const { exitCode } = await start(command, checkOutTimeoutMs)
      return exitCode === 0
    },
    [Symbol.asyncDispose]: () => workspace[Symbol.asyncDispose](),
  }
}

interface WorktreeOptions {
  readonly worktrees: string
  readonly id: string
  readonly environment: Readonly<Record<string, string>>
}

/**
 * The worktree of a conversation on its own branch, at `<id>/<name of the repository>`; it exists when
 * the request is a repetition after a crash. Undefined when git cannot make it or cannot write all of its
 * files; neither the worktree nor the branch is left then.
 */
export async function createWorktree(git: Git, options: WorktreeOptions): Promise<string | undefined> {
  const { text: repository } = await git.run('rev-parse', '--show-toplevel')
  const path = join(options.worktrees, options.id, basename(repository) || 'worktree')
  const first = beingMade.get(path)
  if (first !== undefined) return await first
  const making = makeWorktree(git, path, options).finally(() => beingMade.delete(path))
  beingMade.set(path, making)
  return await making
}

async function makeWorktree(
  git: Git,
  path: string,
  { id, environment }: WorktreeOptions,
): Promise<string | undefined> {
  const branch = `openhands/${id}`
  const existing = await git.run('-C', path, 'rev-parse', '--show-prefix')
  if (existing.exitCode === 0 && existing.text === '') {
    if (await isCheckedOut(git, path)) return path
    await discard(git, path, branch)
  }
  await makeDirectory(dirname(path), 0o700)
  // Without files, because filters of the repository would run to write them.
  const { exitCode } = await git.run('worktree', 'add', '--no-checkout', '-b', branch, path)
  if (exitCode !== 0) return undefined
  let isComplete = false
  try {
    await using own = await openGit(path, environment)
    isComplete = await own.checkOut()
  } finally {
    if (!isComplete) await discard(git, path, branch)
  }
  return isComplete ? path : undefined
}

/** Whether all files were written: git writes the index of a new worktree after them, at once. */
async function isCheckedOut(git: Git, path: string): Promise<boolean> {
  const { text } = await git.run('-C', path, 'rev-parse', '--git-path', 'index')
  return await lstat(resolve(path, text)).then(
    () => true,
    () => false,
  )
}

/** Removes a worktree in which no work has been done yet, with its branch. */
async function discard(git: Git, path: string, branch: string): Promise<void> {
  await rm(path, { recursive: true, force: true })
  await git.run('worktree', 'remove', '--force', '--force', path)
  await git.run('update-ref', '-d', `refs/heads/${branch}`)
  await rm(dirname(path), { recursive: true, force: true })
}

/** The conversation for which the worktree of a working directory was made; undefined for another one. */
export function worktreeOwner(worktreesDirectory: string, workingDirectory: string): string | undefined {
  if (!isWithin(worktreesDirectory, workingDirectory)) return undefined
  const [id] = relative(worktreesDirectory, workingDirectory).split(sep)
  return id === '' ? undefined : id
}

/** Removes the worktree of a conversation, if it has one, and what git knows of it. Its branch stays. */
export async function removeWorktree(
  worktreesDirectory: string,
  id: string,
  environment: Readonly<Record<string, string>>,
): Promise<void> {
  const directory = join(worktreesDirectory, id)
  const names = await readdir(directory).catch(() => [])
  for (const name of names) {
    const path = join(directory, name)
    await using git = await openGit(path, environment)
    await git.run('worktree', 'remove', '--force', '--force', path)
  }
  if (names.length > 0) await rm(directory, { recursive: true, force: true })
}
