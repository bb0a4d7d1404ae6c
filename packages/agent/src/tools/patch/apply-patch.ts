import { dirname, resolve } from 'node:path'
import {
  type Action,
  type ApplyPatchAction,
  type ApplyPatchObservation,
  applyPatchAction,
  applyPatchTool,
  type Observation,
  parseArguments,
  schemaParameters,
  type ToolDefinition,
} from '@slipway/protocol'
import { makeRealDirectory } from '@slipway/shared/tool-files'
import { toolDescription } from '../core/define-tool.ts'
import {
  checkFileSize,
  createFile,
  lstatIfExists,
  moveFile,
  readExistingFile,
  removeFile,
  withFileLocks,
} from '../core/file-access.ts'
import { replaceLinkedFile } from '../core/linked-files.ts'
import { outputLimits } from '../core/output-limits.ts'
import { type ToolContext, type ToolFactory, textBlock } from '../core/tool.ts'
import { failureText, ToolError } from '../core/tool-failure.ts'
import { truncateMiddle } from '../core/truncate.ts'
import { EditHistory, type FileChange } from '../files/edit-history.ts'
import { encodeChange, encodeText, requireText, utf8Format } from '../files/encoding.ts'
import { markSeen, staleNote } from '../files/seen-files.ts'
import { brokenByChange } from '../files/syntax-check.ts'
import { toleranceNote } from '../files/text-changes.ts'
import { undoLastChange } from '../files/undo.ts'
import { type FilePatch, parsePatch } from './parse-patch.ts'
import { patchText } from './patch-text.ts'
import { plainPatch } from './read-diff.ts'

const maxChars = outputLimits.apply_patch

/**
 * Applies a patch to several files, or to none. For models that were trained on this format; its kinds are
 * not in the specification's closed lists, so it is opened only by name.
 */
export const openApplyPatch: ToolFactory = (context) => ({
  name: 'apply_patch',
  // The kinds of this tool are open by design; the unions list the closed ones.
  definition: { ...applyPatchTool, description: toolDescription('apply_patch') } as unknown as ToolDefinition,
  parameters: schemaParameters(applyPatchAction),
  parse: (args) => {
    const parsed = parseArguments(applyPatchAction, 'ApplyPatchAction', args)
    if ('error' in parsed) return parsed
    try {
      return { action: { ...parsed.action, patch: plainPatch(parsed.action.patch) } as unknown as Action }
    } catch (error) {
      if (error instanceof ToolError) return { error: error.message }
      throw error
    }
  },
  resources: (action) => patchedPaths(action as unknown as ApplyPatchAction, context),
  run: async (action, signal) => {
    const { patch } = action as unknown as ApplyPatchAction // parsed by `parse`
    signal.throwIfAborted()
    return (await observe(patch, context)) as unknown as Observation
  },
})

async function observe(patch: string, context: ToolContext): Promise<ApplyPatchObservation> {
  const kind = 'ApplyPatchObservation' as const
  try {
    const message = truncateMiddle(await applyPatch(patch, context), maxChars, cutNote)
    return { content: [textBlock(message)], is_error: false, message, kind }
  } catch (error) {
    const reason = failureText(error)
    if (reason === undefined) throw error
    const message = truncateMiddle(`Nothing was changed. ${reason}`, maxChars, cutNote)
    return { content: [textBlock(message)], is_error: true, message, kind }
  }
}

function cutNote({ chars }: { readonly chars: number }): string {
  return `[${chars} characters left out.]`
}

function patchedPaths({ patch }: ApplyPatchAction, { workspace }: ToolContext): string[] {
  try {
    const paths = parsePatch(patch).flatMap((one) => [
      one.path,
      ...(one.kind === 'update' && one.moveTo !== undefined ? [one.moveTo] : []),
    ])
    return paths.map((path) => `file:${resolve(workspace.directory, path)}`)
  } catch {
    return []
  }
}

/** A step that can be taken back. */
interface Change {
  readonly summary: string
  /** For the undo, by real path. */
  readonly versions: readonly (readonly [path: string, change: FileChange])[]
  apply(): Promise<void>
  revert(): Promise<void>
  /** What the change broke, for the model. */
  check(): Promise<string>
}

/** Applies all changes of a patch or none; returns what was done. Rejects with ToolError and the like. */
async function applyPatch(patch: string, context: ToolContext): Promise<string> {
  const patches = parsePatch(patch)
  const undone = patches.flatMap((one) => (one.kind === 'undo' ? [one.path] : []))
  if (undone.length > 0) return await undo(undone, patches.length, context)
  const targets = await Promise.all(
    patches.flatMap((one) => [
      context.workspace.resolve(one.path, 'write'),
      ...(one.kind === 'update' && one.moveTo !== undefined
        ? [context.workspace.resolve(one.moveTo, 'write')]
        : []),
    ]),
  )
  if (new Set(targets).size < targets.length)
    throw new ToolError('The patch has two parts for the same file.')
  return await withFileLocks(targets, async () => {
    const changes: Change[] = []
    for (const one of patches) if (one.kind !== 'undo') changes.push(await prepare(one, context))
    const done: Change[] = []
    const history = new EditHistory(context.directory)
    const rollbacks: (() => Promise<void>)[] = []
    try {
      for (const [path, version] of changes.flatMap(({ versions }) => versions))
        rollbacks.push(await history.push(path, version))
      for (const change of changes) {
        done.unshift(change)
        await change.apply()
      }
    } catch (error) {
      // What cannot be taken back does not keep the rest from it.
      for (const change of done) await change.revert().catch(() => {})
      for (const rollback of rollbacks) await rollback().catch(() => {})
      throw error
    }
    for (const [path, { after }] of changes.flatMap(({ versions }) => versions))
      markSeen(context.workspace, path, after)
    const issues = await Promise.all(changes.map((change) => change.check()))
    return ['Done:', ...changes.map(({ summary }, at) => summary + (issues[at] ?? ''))].join('\n')
  })
}

/** Takes back the last change of one file. */
async function undo([path = '']: readonly string[], parts: number, context: ToolContext): Promise<string> {
  if (parts > 1) throw new ToolError('"*** Undo File: " stands alone in its patch.')
  const { workspace, directory } = context
  const real = await workspace.resolve(path, 'write')
  const { before, after, partner } = await undoLastChange(path, real, {
    history: new EditHistory(directory),
    workspace,
  })
  markSeen(workspace, real, after)
  const mark = after === undefined ? 'D' : before === undefined ? 'A' : 'M'
  return `Done: the last change is taken back.\n${mark} ${path}${partner === undefined ? '' : ` (moved from or to ${partner})`}`
}

/** Reads and computes everything that may fail before the first file is written. */
async function prepare(patch: Exclude<FilePatch, { kind: 'undo' }>, context: ToolContext): Promise<Change> {
  const real = await context.workspace.resolve(patch.path, 'write')
  if (patch.kind === 'add') return await prepareAdd(patch, real, context)
  const { bytes, stats } = await readExistingFile(real)
  const before = { bytes, mode: stats.mode }
  if (patch.kind === 'delete')
    return {
      summary: `D ${patch.path}`,
      versions: [[real, { before, after: undefined }]],
      apply: () => removeFile(real),
      revert: async () => {
        if ((await lstatIfExists(real)) === undefined) await createFile(real, bytes, stats)
      },
      check: async () => '',
    }
  return await prepareUpdate(patch, real, before, context)
}

async function prepareAdd(
  { path, text }: Extract<FilePatch, { kind: 'add' }>,
  real: string,
  context: ToolContext,
): Promise<Change> {
  const bytes = checkFileSize(path, encodeText({ ...utf8Format, text }))
  await assertAbsent(path, real)
  let isCreated = false
  return {
    summary: `A ${path}`,
    versions: [[real, { before: undefined, after: bytes }]],
    apply: async () => {
      await makeRealDirectory(dirname(real))
      await createFile(real, bytes)
      isCreated = true
    },
    revert: async () => {
      if (isCreated) await removeFile(real, { force: true })
    },
    check: () => brokenByChange(path, { before: undefined, after: text }, context),
  }
}

async function prepareUpdate(
  { path, moveTo, hunks }: Extract<FilePatch, { kind: 'update' }>,
  real: string,
  before: { readonly bytes: Buffer; readonly mode: number },
  context: ToolContext,
): Promise<Change> {
  const oldFile = requireText(path, before.bytes)
  const { text, tolerated } = patchText(path, oldFile.text, hunks)
  const changed = encodeChange(oldFile, text)
  checkFileSize(path, changed.bytes)
  const target = moveTo === undefined ? real : await context.workspace.resolve(moveTo, 'write')
  if (moveTo !== undefined) await assertAbsent(moveTo, target)
  let isWritten = false
  let isMoved = false
  return {
    summary: `M ${moveTo ?? path}${moveTo === undefined ? '' : ` (moved from ${path})`}${toleranceNote(tolerated)}${changed.note}${staleNote(context.workspace, real, before.bytes)}`,
    versions:
      target === real
        ? [[real, { before, after: changed.bytes }]]
        : [
            [real, { before, after: undefined, partner: target }],
            [target, { before: undefined, after: changed.bytes, partner: real }],
          ],
    apply: async () => {
      await replaceLinkedFile(real, changed.bytes, context.workspace)
      isWritten = true
      if (target === real) return
      await makeRealDirectory(dirname(target))
      await moveFile(real, target)
      isMoved = true
    },
    revert: async () => {
      if (isMoved) await moveFile(target, real)
      if (isWritten) await replaceLinkedFile(real, before.bytes, context.workspace)
    },
    check: () => brokenByChange(moveTo ?? path, { before: oldFile.text, after: text }, context),
  }
}

async function assertAbsent(path: string, real: string): Promise<void> {
  if ((await lstatIfExists(real)) !== undefined) throw new ToolError(`${path} is already there.`)
}
