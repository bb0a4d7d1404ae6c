import { RepositoryView } from '@slipway/shared/git'
import { type GitCommand, gitCommand } from '@slipway/shared/process'
import { repositoryRoot } from '../skills/instruction-files.ts'
import type { Workspace } from '../workspace/workspace.ts'
import { joinData, quoteData } from './quote-data.ts'

const maxBytes = 64 * 1024
/** A status reads all folders of the working tree. */
const statusMs = 1_000
const maxBranch = 50
const maxPath = 60
const maxPaths = 120
const maxSubject = 45

export interface EnvironmentOptions {
  /** Ends the search; what was found until then is described. */
  readonly signal: AbortSignal
  /** Hides secrets. It runs before texts are cut: a part of a secret is not found. */
  redact(text: string): string
}

/**
 * Branch, changed files and last commits, a line each; none without a repository, for which no program is
 * started. A status that takes too long is left out.
 */
export async function gitSummary(
  workspace: Workspace,
  { signal, redact }: EnvironmentOptions,
): Promise<string[]> {
  if ((await repositoryRoot(workspace.directory)) === undefined) return []
  const run = ({ command, args, env }: GitCommand, timeoutMs?: number) =>
    workspace.run(command, args, { env, maxBytes, ...(timeoutMs && { timeoutMs }) }, signal)
  await using view = await RepositoryView.open((command) => run(command))
  if (view === undefined) return []
  const git = async (args: readonly string[], timeoutMs?: number) => {
    const { exitCode, stdout, isTruncated } = await run(gitCommand(args, { env: view.env }), timeoutMs)
    return exitCode === 0 ? { text: redact(stdout.toString('utf8')), isTruncated } : undefined
  }
  const [branch, status, log] = await Promise.all([
    git(['symbolic-ref', '--short', '-q', 'HEAD']),
    git(['status', '--porcelain', '-z', '--untracked-files=normal', '--', '.'], statusMs),
    git(['log', '-3', '-z', '--format=%s']),
  ])
  const name = branch === undefined ? 'none (detached HEAD)' : quoteData(branch.text.trim(), maxBranch)
  const commits = splitFields(log?.text ?? '').map((subject) => quoteData(subject, maxSubject))
  return [
    `- Git branch: ${name}`,
    ...(status === undefined ? [] : [`- Git status: ${changedFiles(status.text, status.isTruncated)}`]),
    ...(commits.length === 0 ? [] : [`- Last commits: ${commits.join(', ')}`]),
  ]
}

function changedFiles(status: string, isTruncated: boolean): string {
  const fields = splitFields(status)
  const files: string[] = []
  for (let at = 0; at < fields.length; at++) {
    const field = fields[at] ?? ''
    files.push(`${field.slice(0, 2).trim()} ${quoteData(field.slice(3), maxPath)}`)
    // The earlier path of a renamed file.
    if (/^[RC]|^.[RC]/.test(field)) at++
  }
  return files.length === 0 ? 'clean' : joinData(files, maxPaths, isTruncated)
}

function splitFields(output: string): string[] {
  return output.split('\0').slice(0, -1)
}
