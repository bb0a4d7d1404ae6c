import { dirname } from 'node:path'
import { makeRealDirectory } from '@slipway/shared/tool-files'
import type { Workspace } from '../../workspace/workspace.ts'
import { createFile, readFileIfExists, removeFile, withFileLocks } from '../core/file-access.ts'
import { replaceLinkedFile } from '../core/linked-files.ts'
import { ToolError } from '../core/tool-failure.ts'
import type { EditHistory } from './edit-history.ts'

/** What an undo did to the path; undefined is a path without a file. */
interface Undone {
  readonly before: Buffer | undefined
  readonly after: Buffer | undefined
  /** The other path of a move that was taken back. */
  readonly partner: string | undefined
}

interface UndoOptions {
  readonly history: EditHistory
  readonly workspace: Workspace
  /** Another path that was changed too stays as it is: the undo is refused. */
  readonly isAlone?: boolean
}

/**
 * Takes back the last change of a path by the tools of a conversation: an edit, a creation, a removal, or a
 * move with both of its paths. `real`: resolved by the workspace for writing. Rejects with ToolError when
 * something else has changed a file since.
 */
export async function undoLastChange(path: string, real: string, options: UndoOptions): Promise<Undone> {
  const { history, workspace, isAlone = false } = options
  const partner = (await history.latest(real))?.partner
  if (partner !== undefined && (isAlone || (await workspace.resolve(partner, 'write')) !== partner))
    throw new ToolError(
      `The last change of ${path} moved it, from or to ${partner}, which may not be changed.`,
    )
  return await withFileLocks(partner === undefined ? [real] : [real, partner], async () => {
    const step = await prepare(path, real, options)
    if (step.partner !== partner) throw new ToolError(`${path} is being changed. Try again.`)
    const other = partner === undefined ? undefined : await prepare(partner, partner, options)
    if (other !== undefined && other.partner !== real)
      throw new ToolError(`${partner} was changed after the move. Undo those changes first.`)
    // What is restored comes first, so that no moment has neither file.
    const steps = [step, ...(other === undefined ? [] : [other])]
    for (const one of steps.filter(({ after }) => after !== undefined)) await one.apply()
    for (const one of steps.filter(({ after }) => after === undefined)) await one.apply()
    return { before: step.before, after: step.after, partner }
  })
}

async function prepare(path: string, real: string, { history, workspace }: UndoOptions) {
  const change = await history.latest(real)
  if (change === undefined) throw new ToolError(`There is no edit of ${path} that could be undone.`)
  const before = (await readFileIfExists(real))?.bytes
  const { before: old, partner } = change
  // A file that something else removed comes back, unless the undo would only remove it.
  const isGone = before === undefined && old !== undefined && partner === undefined
  if (!isGone && !change.isChangedTo(before))
    throw new ToolError(
      `${path} was ${before === undefined ? 'removed' : 'changed'} by something else after the last edit, and an undo would lose that. View the file and take the edit back with another one.`,
    )
  const apply = async () => {
    if (old === undefined) await removeFile(real)
    else if (before === undefined) {
      await makeRealDirectory(dirname(real))
      await createFile(real, old.bytes, old.mode === undefined ? 0o666 : { mode: old.mode, uid: -1, gid: -1 })
    } else await replaceLinkedFile(real, old.bytes, workspace)
    await change.remove()
  }
  return { before, after: old?.bytes, partner, apply }
}
