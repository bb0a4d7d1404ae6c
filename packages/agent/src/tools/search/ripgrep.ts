import { join } from 'node:path'
import { firstChars } from '@slipway/shared/text'
import type { ProcessResult, Workspace } from '../../workspace/workspace.ts'
import { ToolError } from '../core/tool-failure.ts'

const timeoutMs = 30_000
/** Of a list of paths. */
const maxListBytes = 64 * 1024 * 1024

interface SearchOptions {
  /** Absolute; paths are relative to it. */
  readonly directory: string
  /** Only files whose path matches, as in a .gitignore: without a slash at any depth. */
  readonly glob?: string
  /** Only files in which this regular expression matches, ignoring case. */
  readonly regex?: string
  /** Whether names that begin with a dot are searched. `.git` never is. */
  readonly includesHidden: boolean
}

export interface SearchResult {
  /** Relative paths, the newest first. Links are not followed, so all are in the directory. */
  readonly files: readonly string[]
  /** False when the output was truncated. */
  readonly isComplete: boolean
}

/**
 * Finds files with ripgrep, without those that a .gitignore excludes, also outside of a repository. Rejects
 * with ToolError when the pattern is invalid or the search takes more than 30 seconds.
 */
export async function findFiles(
  workspace: Workspace,
  search: SearchOptions,
  signal: AbortSignal,
): Promise<SearchResult> {
  const { directory, glob, regex, includesHidden } = search
  const mode = regex === undefined ? ['--files'] : matchArguments(regex)
  const globArguments =
    glob === undefined ? [] : ['--glob', argument(glob.startsWith('!') ? `\\${glob}` : glob)]
  const hiddenArguments = includesHidden ? ['--hidden'] : []
  const runList = (args: readonly string[]) =>
    listFiles(workspace, { directory, args: [...hiddenArguments, ...args, '--glob', '!.git', './'] }, signal)
  const [found, visible] = await Promise.all([
    runList([...mode, ...globArguments, '--sortr', 'modified']),
    glob === undefined ? undefined : runList(['--files']),
  ])
  if (visible === undefined) return found
  // A glob that matches a directory includes ignored files below it; these are filtered out.
  const paths = new Set(visible.files)
  return {
    files: found.files.filter((path) => paths.has(path)),
    isComplete: found.isComplete && visible.isComplete,
  }
}

/** Whether a regular expression matches in one file, even one that a .gitignore excludes. */
export async function fileMatches(
  workspace: Workspace,
  { directory, name, regex }: { readonly directory: string; readonly name: string; readonly regex: string },
  signal: AbortSignal,
): Promise<boolean> {
  const args = [...matchArguments(regex), `./${name}`]
  return (await listFiles(workspace, { directory, args }, signal)).files.length > 0
}

/** A line in which a regular expression matches, or one around it. */
interface MatchingLine {
  readonly isMatch: boolean
  /** From 1. */
  readonly number: number
  /** At most `maxColumns` characters, without its end. */
  readonly text: string
}

const maxColumns = 300

/**
 * The matching lines of files, with `context` lines before and after each, by relative path and up to
 * `maxLines` matches of each; none for a binary file. Output above 4 MiB is truncated.
 */
export async function matchingLines(
  workspace: Workspace,
  search: {
    readonly directory: string
    readonly files: readonly string[]
    readonly regex: string
    readonly maxLines: number
    readonly context?: number
  },
  signal: AbortSignal,
): Promise<ReadonlyMap<string, readonly MatchingLine[]>> {
  const { directory, files, regex, maxLines, context = 0 } = search
  const limits = ['--max-count', String(maxLines), '--max-columns', '4000', '--max-columns-preview']
  const format = ['--with-filename', '--line-number', '--no-heading', '--color=never', '--threads=1']
  const names = files.map((file) => `./${file}`)
  const args = [...limits, ...format, '--context', String(context), ...regexArguments(regex), '--', ...names]
  const { stdout } = await runRipgrep(workspace, { directory, args, maxBytes: 4 * 1024 * 1024 }, signal)
  const found = new Map<string, MatchingLine[]>()
  // A name may contain line ends; it ends with NUL.
  for (const match of stdout.toString('utf8').matchAll(/\.\/([^\0]+)\0(\d+)([:-])([^\n]*)\n/g)) {
    const [, file = '', number, mark, text = ''] = match
    const lines = found.get(file) ?? []
    lines.push({
      isMatch: mark === ':',
      number: Number(number),
      text: firstChars(text.trimEnd(), maxColumns),
    })
    found.set(file, lines)
  }
  return found
}

function matchArguments(regex: string): readonly string[] {
  return ['--files-with-matches', ...regexArguments(regex)]
}

/** Ignores case, unless the expression says `(?-i)`; one that names line ends matches across lines. */
function regexArguments(regex: string): readonly string[] {
  return ['--ignore-case', ...(spansLines.test(regex) ? ['--multiline'] : []), '-e', argument(regex)]
}

/** A line end, the escape of one, or the flag by which a dot matches one. */
const spansLines = /\n|(?<!\\)(?:\\\\)*\\n|\(\?[a-z]*s/i

/** Refuses texts that cannot be program arguments. */
function argument(text: string): string {
  if (text.includes('\0')) throw new ToolError('The pattern contains a NUL character.')
  if (text.length > 30_000) throw new ToolError('The pattern is too long.')
  return text
}

let ripgrepPath: Promise<string> | undefined

interface Invocation {
  readonly directory: string
  readonly args: readonly string[]
  readonly maxBytes?: number
}

async function listFiles(
  workspace: Workspace,
  invocation: Invocation,
  signal: AbortSignal,
): Promise<SearchResult> {
  const exit = await runRipgrep(workspace, invocation, signal)
  const paths = exit.stdout.toString('utf8').split('\0')
  // The rest after the last NUL is empty or a truncated path.
  paths.pop()
  const files = paths
    .map((path) => path.replace(/^\.\//, ''))
    .filter((path) => !workspace.isReserved(join(invocation.directory, path)))
  return { files, isComplete: !exit.isTruncated }
}

async function runRipgrep(
  workspace: Workspace,
  { directory, args, maxBytes = maxListBytes }: Invocation,
  signal: AbortSignal,
): Promise<ProcessResult> {
  // Without a bundled program for this platform, use that of the system.
  ripgrepPath ??= import('@vscode/ripgrep').then(
    ({ rgPath }) => rgPath,
    () => 'rg',
  )
  const allArgs = ['--no-config', '--no-messages', '--no-require-git', '--crlf', '--null', ...args]
  const exit = await workspace.run(
    await ripgrepPath,
    allArgs,
    { cwd: directory, timeoutMs, maxBytes },
    signal,
  )
  signal.throwIfAborted()
  if (exit.isTimedOut)
    throw new ToolError(
      `The search took more than ${timeoutMs / 1000} seconds. Search in a smaller directory.`,
    )
  const reason = failureReason(exit)
  if (reason !== undefined) throw new ToolError(`The search failed: ${reason}`)
  return exit
}

/** Exit codes: 0 found, 1 nothing found, 2 an error; for unreadable files it has no message. */
function failureReason({ exitCode, stdout, stderr }: ProcessResult): string | undefined {
  if (exitCode === 0 || exitCode === 1) return undefined
  const message = firstChars(stderr.toString('utf8').trim(), 2000)
  if (exitCode === 2 && (message === '' || stdout.length > 0)) return undefined
  return message === '' ? `ripgrep ended with ${exitCode ?? 'a signal'}.` : message
}
