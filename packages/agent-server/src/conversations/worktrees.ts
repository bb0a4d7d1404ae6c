import { basename, dirname, join, relative, sep } from 'node:path'
import { Workspace } from '@slipway/agent'
import { isWithin } from '@slipway/shared/fs'
import { makeDirectory, readdir, rm } from '@slipway/shared/tool-files'

const gitTimeoutMs = 30_000

export interface Git extends AsyncDisposable {
  run(...args: string[]): Promise<{ readonly exitCode: number | null; readonly text: string }>
}

/** Git in a directory, with the rights of tools. */
export async function openGit(
  directory: string,
  environment: Readonly<Record<string, string>>,
): Promise<Git> {
  const workspace = await Workspace.open({ directory, env: environment })
  return {
    async run(...args) {
      const { exitCode, stdout } = await workspace.run('git', args, { timeoutMs: gitTimeoutMs })
      return { exitCode, text: stdout.toString().trim() }
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
  worktreesDirectory: string,
  id: string,
): Promise<string | undefined> {
  const { text: repository } = await git.run('rev-parse', '--show-toplevel')
  const path = join(worktreesDirectory, id, basename(repository) || 'worktree')
  await makeDirectory(dirname(path), 0o700)
  const existing = await git.run('-C', path, 'rev-parse', '--show-prefix')
  if (existing.exitCode === 0 && existing.text === '') return path
  const { exitCode } = await git.run('worktree', 'add', '-b', `openhands/${id}`, path)
  return exitCode === 0 ? path : undefined
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
