import { basename, dirname, join, relative, sep } from 'node:path'
import { Workspace } from '@slipway/agent'
import { isWithin } from '@slipway/shared/fs'
import { RepositoryView } from '@slipway/shared/git'
import { type GitCommand, gitCommand } from '@slipway/shared/process'
import { makeDirectory, readdir, rm } from '@slipway/shared/tool-files'

const gitTimeoutMs = 30_000

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
  const start = ({ command, args, env }: GitCommand) =>
    workspace.run(command, args, { env, timeoutMs: gitTimeoutMs })
  return {
    async run(...args) {
      const { exitCode, stdout } = await start(gitCommand(args))
      return { exitCode, text: stdout.toString().trim() }
    },
    async checkOut() {
      await using view = await RepositoryView.open(start)
      if (view === undefined) return false
      const { exitCode } = await start(gitCommand(['reset', '--hard', '--quiet'], { env: view.env }))
      return exitCode === 0
    },
    [Symbol.asyncDispose]: () => workspace[Symbol.asyncDispose](),
  }
}

/**
 * The worktree of a conversation on a branch of its own, at `<id>/<name of the repository>`; it exists when
 * the request is a repetition after a crash. Undefined when git cannot make it.
 */
export async function createWorktree(
  git: Git,
  options: {
    readonly worktrees: string
    readonly id: string
    readonly environment: Readonly<Record<string, string>>
  },
): Promise<string | undefined> {
  const { worktrees, id, environment } = options
  const { text: repository } = await git.run('rev-parse', '--show-toplevel')
  const path = join(worktrees, id, basename(repository) || 'worktree')
  await makeDirectory(dirname(path), 0o700)
  const existing = await git.run('-C', path, 'rev-parse', '--show-prefix')
  if (existing.exitCode !== 0 || existing.text !== '') {
    // Without files, because filters of the repository would run to write them.
    const { exitCode } = await git.run('worktree', 'add', '--no-checkout', '-b', `openhands/${id}`, path)
    if (exitCode !== 0) return undefined
  } else if (await hasFiles(path)) return path
  await using own = await openGit(path, environment)
  return (await own.checkOut()) ? path : undefined
}

/** Whether more than the link to the repository is there: a crash may come before the files. */
async function hasFiles(path: string): Promise<boolean> {
  return (await readdir(path)).some((name) => name !== '.git')
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
