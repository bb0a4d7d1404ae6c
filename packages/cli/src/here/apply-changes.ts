import { Problem } from '@slipway/protocol/client'
import { firstChars } from '@slipway/shared/text'
import { sanitizeLine } from '../output/sanitize.ts'
import type { Git } from './git.ts'
import type { SandboxChanges } from './sandbox-tree.ts'
import { withIndex } from './snapshot.ts'

export interface ChangedFile {
  readonly path: string
  /** Numbers of lines; `-` for binary files. */
  readonly added: string
  readonly removed: string
}

export async function changedFiles(git: Git, { patch }: SandboxChanges): Promise<readonly ChangedFile[]> {
  const text = await git.run(['apply', '--numstat', '-'], { input: patch })
  const lines = text.split('\n').filter((line) => line !== '')
  return lines.map((line) => {
    const [added = '', removed = '', ...path] = line.split('\t')
    return { path: path.join('\t'), added, removed }
  })
}

/**
 * Applies the changes to the working tree, all or none; the index does not change. `present`: all of them are
 * there already.
 */
export async function applyToWorkingTree(
  git: Git,
  { patch }: SandboxChanges,
): Promise<'applied' | 'present'> {
  const { code, stderr } = await git.try(['apply', '--whitespace=nowarn', '-'], { input: patch })
  if (code === 0) return 'applied'
  const reversed = await git.try(['apply', '--reverse', '--check', '-'], { input: patch })
  if (reversed.code === 0) return 'present'
  const files = [...stderr.matchAll(/^error: (?:patch failed: )?(.+?)(?::\d+|: .*)$/gm)].map(
    ([, file]) => file,
  )
  const names = [...new Set(files)].map((file) => `  ${sanitizeLine(file ?? '')}`)
  throw new Problem(
    'conflict',
    [
      'The changes do not fit your working tree, so nothing was changed. In conflict:',
      ...(names.length > 0 ? names : [`  ${firstChars(sanitizeLine(stderr), 300)}`]),
      'Bring them to their own branch instead: slipway app apply ID --branch NAME',
    ].join('\n'),
  )
}

/**
 * Makes a branch from what was checked out when the folder was copied: with a commit of the changes that were
 * uncommitted then, if any, and one of the work. The working tree, the index and the current branch stay as
 * they are. `hasUncommitted`: there is a commit of those changes.
 */
export async function applyToBranch(
  git: Git,
  changes: SandboxChanges,
  { branch, title }: { readonly branch: string; readonly title: string },
): Promise<{ readonly hasUncommitted: boolean }> {
  const { head, patch, tree } = changes
  const ref = `refs/heads/${branch}`
  if ((await git.find(['check-ref-format', '--branch', branch])) === undefined)
    throw new Problem('bad_request', `${sanitizeLine(branch)} is no name of a branch.`)
  if ((await git.find(['rev-parse', '--verify', '--quiet', ref])) !== undefined)
    throw new Problem('conflict', `There is a branch ${sanitizeLine(branch)} already.`)
  if (head !== undefined && (await git.find(['cat-file', '-e', `${head}^{commit}`])) === undefined)
    throw new Problem('conflict', `This repository has no commit ${head}: is it the one that was copied?`)
  if ((await git.find(['cat-file', '-e', `${tree}^{tree}`])) === undefined) {
    throw new Problem(
      'conflict',
      'git has removed the copy of your uncommitted changes. Apply the work without --branch.',
    )
  }
  return await withIndex(git, async (env) => {
    await git.run(['read-tree', tree], { env })
    await git.run(['apply', '--cached', '--whitespace=nowarn', '-'], { env, input: patch })
    const result = await git.run(['write-tree'], { env })
    const commit = (tree: string, parent: string | undefined, message: string) => {
      const parents = parent === undefined ? [] : ['-p', parent]
      return git.run(['commit-tree', tree, ...parents, '-F', '-'], { input: `${message}\n` })
    }
    const isClean = head !== undefined && (await git.run(['rev-parse', `${head}^{tree}`])) === tree
    const base = isClean ? head : await commit(tree, head, 'Uncommitted changes at the start of the work')
    const work = await commit(result, base, title)
    // Only a name that is still free.
    await git.run(['update-ref', ref, work, '0'.repeat(work.length)])
    return { hasUncommitted: !isClean }
  })
}
