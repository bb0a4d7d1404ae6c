import { realpath } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { readSmallFile } from '../skills/small-file.ts'

/**
 * The path under which a directory is trusted: its main worktree when it is the root of a linked git
 * worktree, else
 * itself. A worktree counts only when the main repository names it too: a directory cannot claim to be
 * another's.
 */
export async function repositoryPath(directory: string): Promise<string> {
  const link = join(directory, '.git')
  const [, target] = /^gitdir: (.+)$/.exec(await readLine(link)) ?? []
  if (target === undefined) return directory
  const gitDirectory = await realpath(resolve(directory, target)).catch(() => undefined)
  if (gitDirectory === undefined) return directory
  const commonDirectory = dirname(dirname(gitDirectory))
  const back = await realpath(await readLine(join(gitDirectory, 'gitdir'))).catch(() => undefined)
  const isLinked = gitDirectory.startsWith(join(commonDirectory, 'worktrees/')) && back === link
  return isLinked && commonDirectory.endsWith('/.git') ? dirname(commonDirectory) : directory
}

async function readLine(path: string): Promise<string> {
  const file = await readSmallFile(path, { maxBytes: 8192 })
  return file === undefined || 'issue' in file ? '' : file.text.trim()
}
