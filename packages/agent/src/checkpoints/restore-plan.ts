/**
 * What a restore changes, and what it leaves to the user.
 *
 * Problem: a checkpoint is from before a step. Since then the agent has changed files, and so has the user,
 * who wants the agent's work back and nothing else.
 *
 * Idea: the files are stored before and after each step. What differs between the two is the agent's, what
 * differs between the end of a step and the next checkpoint is the user's. A restore goes over the files that
 * the agent has touched since the checkpoint; all others stay.
 *
 * Invariants:
 * - A step without an end (its server died) counts as the agent's until the next checkpoint: all of it is
 *   restored.
 * - A restore is a step too: what it has changed comes back when its own checkpoint is restored.
 * - A file that both have changed is restored and named (`clashes`); the checkpoint of the restore has it.
 */

import { branch, endsBranch, type RunGit } from './shadow-repository.ts'

export interface RestorePlan {
  /** The files after the restore. */
  readonly tree: string
  /** Changed by the user alone; they stay. */
  readonly kept: readonly string[]
  /** Changed by the agent and the user; they are restored. */
  readonly clashes: readonly string[]
}

/** The plan of a restore of the checkpoint `id`; the newest checkpoint is that of the present files. */
export async function planRestore(git: RunGit, id: string, present: string): Promise<RestorePlan> {
  const steps = await readSteps(git)
  const since = steps.slice(steps.findIndex((step) => step.commit === id))
  const agentPairs: string[] = []
  const userPairs: string[] = []
  for (const [at, { tree, end }] of since.entries()) {
    const next = since[at + 1]
    if (next === undefined) break
    agentPairs.push(`${tree} ${end ?? next.tree}`)
    if (end !== undefined) userPairs.push(`${end} ${next.tree}`)
  }
  const touched = await changedPaths(git, agentPairs)
  const ofUser = await changedPaths(git, userPairs)
  const target = since[0]?.tree ?? id
  const paths = [...(await changedPaths(git, [`${present} ${target}`]))]
  const kept = paths.filter((path) => !touched.has(path))
  const clashes = paths.filter((path) => touched.has(path) && ofUser.has(path))
  return { tree: kept.length === 0 ? target : await mixTrees(git, { target, present, kept }), kept, clashes }
}

interface Step {
  readonly commit: string
  readonly tree: string
  /** The files when it had ended. */
  readonly end: string | undefined
}

/** All checkpoints, oldest first. */
async function readSteps(git: RunGit): Promise<Step[]> {
  const ends = new Map<string, string>()
  for (const line of await readLog(git, endsBranch, '%T %s')) {
    const [tree = '', commit = ''] = line.split(' ')
    ends.set(commit, tree)
  }
  return (await readLog(git, branch, '%H %T')).map((line) => {
    const [commit = '', tree = ''] = line.split(' ')
    return { commit, tree, end: ends.get(commit) }
  })
}

async function readLog(git: RunGit, ref: string, format: string): Promise<string[]> {
  if ((await git(['for-each-ref', ref])).length === 0) return []
  const output = await git(['log', '--reverse', `--format=${format}`, ref])
  return output.toString().split('\n').filter(Boolean)
}

/** The paths that differ in any pair of trees. */
async function changedPaths(git: RunGit, pairs: readonly string[]): Promise<ReadonlySet<string>> {
  if (pairs.length === 0) return new Set()
  const args = ['diff-tree', '--stdin', '-r', '-z', '--name-only', '--no-renames']
  const output = (await git(args, { input: `${pairs.join('\n')}\n` })).toString()
  // A line of each pair comes before its paths.
  const paths = output
    .split('\0')
    .map((piece) => piece.replace(/^(?:[0-9a-f]{40,64} [0-9a-f]{40,64}\n)+/, ''))
  return new Set(paths.filter((path) => path !== ''))
}

/** The target with the kept paths as they are now. */
async function mixTrees(
  git: RunGit,
  {
    target,
    present,
    kept,
  }: { readonly target: string; readonly present: string; readonly kept: readonly string[] },
): Promise<string> {
  const env = { GIT_INDEX_FILE: `${(await git(['rev-parse', '--git-dir'])).toString().trim()}/mixed-index` }
  const wanted = new Set(kept)
  const entries = (await git(['ls-tree', '-r', '-z', present])).toString().split('\0')
  const here = new Map(
    entries.flatMap((entry) => {
      const tab = entry.indexOf('\t')
      const path = entry.slice(tab + 1)
      const [mode = '', , object = ''] = entry.slice(0, tab).split(' ')
      return wanted.has(path) ? [[path, `${mode} ${object}\t${path}`] as const] : []
    }),
  )
  const zero = '0'.repeat(40)
  const input = kept.map((path) => `${here.get(path) ?? `0 ${zero}\t${path}`}\0`).join('')
  await git(['read-tree', target], { env })
  await git(['update-index', '--replace', '-z', '--index-info'], { env, input })
  return (await git(['write-tree'], { env })).toString().trim()
}
