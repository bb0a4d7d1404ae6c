import type { Exit, Workspace } from '../../workspace/workspace.ts'
import { Refused } from '../core/file-access.ts'

const timeoutMs = 30_000
/** Of output: paths of files. */
const maxBytes = 64 * 1024 * 1024

export interface Search {
  /** Absolute; paths are relative to it. */
  readonly directory: string
  /** Only files whose path matches; as in a .gitignore, without a slash at any depth. */
  readonly glob?: string
  /** Only files in which this regular expression matches, in any case. */
  readonly regex?: string
  /** Also what has a name that begins with a dot. `.git` is never searched. */
  readonly isHiddenSearched: boolean
}

export interface Found {
  /** Relative paths, the newest first. Links are not followed, so all are inside. */
  readonly files: readonly string[]
  /** False when there was too much output to read all of it. */
  readonly isComplete: boolean
}

/**
 * Finds files with ripgrep, without those that are ignored by a .gitignore. Rejects with Refused when the pattern cannot be
 * read or the search takes more than 30 seconds.
 */
export async function findFiles(workspace: Workspace, search: Search, signal: AbortSignal): Promise<Found> {
  const { directory, glob, regex, isHiddenSearched } = search
  mustBeArgument(glob, regex)
  const mode = regex === undefined ? ['--files'] : matching(regex)
  const wanted = glob === undefined ? [] : ['--glob', glob.startsWith('!') ? `\\${glob}` : glob]
  const hidden = isHiddenSearched ? ['--hidden'] : []
  const list = (args: readonly string[]) =>
    ripgrep(workspace, { directory, args: [...hidden, ...args, '--glob', '!.git', './'] }, signal)
  const [found, visible] = await Promise.all([
    list([...mode, ...wanted, '--sortr', 'modified']),
    glob === undefined ? undefined : list(['--files']),
  ])
  if (visible === undefined) return found
  // A glob that matches a directory brings back what is ignored below it: only what is listed without it counts.
  const paths = new Set(visible.files)
  return {
    files: found.files.filter((path) => paths.has(path)),
    isComplete: found.isComplete && visible.isComplete,
  }
}

/** Whether a regular expression matches in one file, whatever a .gitignore says about it. */
export async function matchesIn(
  workspace: Workspace,
  { directory, name, regex }: { readonly directory: string; readonly name: string; readonly regex: string },
  signal: AbortSignal,
): Promise<boolean> {
  mustBeArgument(regex)
  const { files } = await ripgrep(workspace, { directory, args: [...matching(regex), `./${name}`] }, signal)
  return files.length > 0
}

function matching(regex: string): readonly string[] {
  return ['--files-with-matches', '--ignore-case', '-e', regex]
}

/** What no program can be given. */
function mustBeArgument(...texts: readonly (string | undefined)[]): void {
  if (texts.some((text) => text?.includes('\0'))) throw new Refused('The pattern contains a NUL character.')
  if (texts.some((text) => text !== undefined && text.length > 30_000))
    throw new Refused('The pattern is too long.')
}

let program: Promise<string> | undefined

async function ripgrep(
  workspace: Workspace,
  { directory, args }: { readonly directory: string; readonly args: readonly string[] },
  signal: AbortSignal,
): Promise<Found> {
  // Without a program for this platform there may be one of the system.
  program ??= import('@vscode/ripgrep').then(
    ({ rgPath }) => rgPath,
    () => 'rg',
  )
  const options = ['--no-config', '--no-messages', '--null']
  const exit = await workspace.run(
    await program,
    [...options, ...args],
    { cwd: directory, timeoutMs, maxBytes },
    signal,
  )
  signal.throwIfAborted()
  if (exit.isTimedOut)
    throw new Refused(`The search took more than ${timeoutMs / 1000} seconds. Search in a smaller directory.`)
  const why = fault(exit)
  if (why !== undefined) throw new Refused(`The search failed: ${why}`)
  const paths = exit.stdout.toString('utf8').split('\0')
  // After the last NUL is nothing, or a path that was cut.
  paths.pop()
  return { files: paths.map((path) => path.replace(/^\.\//, '')), isComplete: !exit.isCut }
}

/** Exit codes: 0 found, 1 nothing found, 2 a fault; files that cannot be read are such a fault too, but say nothing. */
function fault({ exitCode, stdout, stderr }: Exit): string | undefined {
  if (exitCode === 0 || exitCode === 1) return undefined
  const said = stderr.toString('utf8').trim().slice(0, 2000)
  if (exitCode === 2 && (said === '' || stdout.length > 0)) return undefined
  return said === '' ? `ripgrep ended with ${exitCode ?? 'a signal'}.` : said
}
