import { dirname, isAbsolute, join } from 'node:path'
import type { ImageContent, TextContent } from '@slipway/protocol'
import { makeRealDirectory } from '@slipway/shared/tool-files'
import { checkFileSize, createFile, fileMutex, lstatIfExists, readExistingFile } from '../core/file-access.ts'
import { replaceLinkedFile } from '../core/linked-files.ts'
import { outputLimits } from '../core/output-limits.ts'
import { type ToolAction, type ToolContext, type ToolRunOptions, textBlock } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'
import { truncateOutput } from '../core/truncate.ts'
import { viewDocument } from '../documents/view-document.ts'
import { EditHistory, withHistory } from './edit-history.ts'
import { decodeText, encodeChange, encodeText, requireText, restoreLineEnds, utf8Format } from './encoding.ts'
import { countLines, numberLines, pluralize, snippetAround, textForEvent } from './lines.ts'
import { entryLabel, listDirectory } from './listing.ts'
import { readImage } from './read-image.ts'
import { isSeen, markSeen, staleNote } from './seen-files.ts'
import { brokenByChange } from './syntax-check.ts'
import { changedRange, insertAfterLine, replaceText } from './text-changes.ts'
import { undoLastChange } from './undo.ts'

const maxChars = outputLimits.file_editor
const maxListedEntries = 1000

export type EditorCommand = Omit<ToolAction<'FileEditorAction'>, 'kind'>

/** The common members of the observations of both editors. */
interface EditorResult {
  readonly content: (TextContent | ImageContent)[]
  readonly command: EditorCommand['command']
  readonly path: string | null
  readonly prev_exist: boolean
  readonly old_content: string | null
  readonly new_content: string | null
}

/** The five commands of the editors. Rejects with ToolError, PathNotAllowedError or the system's error. */
export class FileEditor {
  readonly #context: ToolContext
  readonly #history: EditHistory
  readonly #isAlone: boolean

  /** `isAlone`: a command changes its path and no other. */
  constructor(context: ToolContext, isAlone = false) {
    this.#context = context
    this.#isAlone = isAlone
    this.#history = new EditHistory(context.directory)
  }

  async run(
    command: EditorCommand,
    signal: AbortSignal,
    { replacesAll = false }: ToolRunOptions = {},
  ): Promise<EditorResult> {
    await this.#assertAbsolute(command.path)
    if (command.command === 'view') return await this.#view(command, signal)
    const real = await this.#context.workspace.resolve(command.path, 'write')
    if (command.command === 'undo_edit') return await this.#undo(command, real)
    return await fileMutex.runExclusive(real, () =>
      command.command === 'create' ? this.#create(command, real) : this.#edit(command, real, replacesAll),
    )
  }

  async #assertAbsolute(path: string): Promise<void> {
    if (isAbsolute(path)) return
    const { workspace } = this.#context
    const real = await workspace.resolve(path, 'read')
    const hint =
      (await lstatIfExists(real)) === undefined ? '' : ` Perhaps ${join(workspace.directory, path)} is meant.`
    throw new ToolError(`The path ${path} is not absolute: it has to start with /.${hint}`)
  }

  async #view(command: EditorCommand, signal: AbortSignal): Promise<EditorResult> {
    const { path, view_range: range } = command
    const realPath = await this.#context.workspace.resolve(path, 'read')
    if ((await lstatIfExists(realPath))?.isDirectory()) {
      if (range) throw new ToolError('view_range is for files; a directory is listed whole.')
      return editorResult(command, { content: [textBlock(await this.#listing(path, realPath, signal))] })
    }
    const { bytes } = await readExistingFile(realPath)
    markSeen(this.#context.workspace, realPath, bytes)
    const image = await readImage(path, bytes)
    if (image !== undefined) {
      const note = image.isShrunk ? ', made smaller' : ''
      return editorResult(command, { content: [textBlock(`The image ${path}${note}:`), image.image] })
    }
    const document = await this.#document(path, bytes, range ?? undefined, signal)
    if (document !== undefined) return editorResult(command, { content: document })
    const text = viewText(path, requireText(path, bytes).text, range ?? undefined)
    return editorResult(command, { content: [textBlock(text)] })
  }

  /** Pages of a PDF, or the cells of a notebook; undefined for other files and for lines of a notebook. */
  async #document(
    path: string,
    bytes: Buffer,
    range: readonly number[] | undefined,
    signal: AbortSignal,
  ): Promise<EditorResult['content'] | undefined> {
    const { directory } = this.#context
    const shown = await viewDocument(path, bytes, { range, signal })
    if (shown === undefined) return undefined
    const { text } = await truncateOutput(shown.text, { directory, tool: 'file_editor', maxChars })
    return [textBlock(text), ...shown.pictures]
  }

  async #listing(path: string, real: string, signal: AbortSignal): Promise<string> {
    const { entries, hiddenCount } = await listDirectory(real, { levels: 2, includesHidden: false }, signal)
    const lines = [
      `${path} has these entries, two levels deep:`,
      ...entries.slice(0, maxListedEntries).map(entryLabel),
    ]
    const omittedCount = entries.length - maxListedEntries
    if (omittedCount > 0)
      lines.push(`[${omittedCount} more are left out. View a directory below to see what is in it.]`)
    if (hiddenCount > 0)
      lines.push(`[${hiddenCount} hidden ones, with a dot in front of the name, are left out.]`)
    const { directory } = this.#context
    return (await truncateOutput(lines.join('\n'), { directory, tool: 'file_editor', maxChars })).text
  }

  async #create(command: EditorCommand, real: string): Promise<EditorResult> {
    const { path, file_text: newText } = command
    if (newText == null) throw new ToolError('create needs file_text, the content of the new file.')
    const { workspace } = this.#context
    if ((await lstatIfExists(real)) !== undefined) {
      const view = isSeen(workspace, real) ? 'Change it' : 'You have not read it: view it, then change it'
      throw new ToolError(
        `${path} is already there, so it cannot be created. ${view} with str_replace or insert.`,
      )
    }
    const bytes = checkFileSize(path, encodeText({ ...utf8Format, text: newText }))
    await makeRealDirectory(dirname(real))
    await withHistory(this.#history, real, { before: undefined, after: bytes }, () => createFile(real, bytes))
    markSeen(workspace, real, bytes)
    const issue = await brokenByChange(path, { before: undefined, after: newText }, this.#context)
    const created = `Created ${path} with ${pluralize(countLines(newText), 'line')}.${issue}`
    const content = [textBlock(created)]
    return editorResult(command, { content, prev_exist: false, new_content: textForEvent(newText) })
  }

  async #edit(command: EditorCommand, real: string, replacesAll: boolean): Promise<EditorResult> {
    const { workspace } = this.#context
    const { bytes, stats } = await readExistingFile(real)
    const stale = staleNote(workspace, real, bytes)
    const oldFile = requireText(command.path, bytes)
    const { text, from, to, note } =
      command.command === 'insert'
        ? insertAfterLine(command, oldFile)
        : replaceText(command, oldFile, replacesAll)
    const changed = encodeChange(oldFile, text)
    const after = checkFileSize(command.path, changed.bytes)
    await withHistory(this.#history, real, { before: { bytes, mode: stats.mode }, after }, () =>
      replaceLinkedFile(real, after, workspace),
    )
    markSeen(workspace, real, after)
    const change = { before: oldFile.text, after: text }
    const issue = await brokenByChange(command.path, change, this.#context)
    const message = `${command.path} is changed.${note}${changed.note}${stale}${issue}${surroundings(text, { from, to })}`
    return editorResult(command, {
      content: [textBlock(message)],
      old_content: textForEvent(restoreLineEnds(oldFile)),
      new_content: textForEvent(restoreLineEnds(changed.file)),
    })
  }

  async #undo(command: EditorCommand, real: string): Promise<EditorResult> {
    const { workspace } = this.#context
    const options = { history: this.#history, workspace, isAlone: this.#isAlone }
    const { before, after, partner } = await undoLastChange(command.path, real, options)
    markSeen(workspace, real, after)
    const oldFile = before && decodeText(before)
    const newFile = after && decodeText(after)
    const snippetText =
      oldFile === undefined || newFile === undefined
        ? ''
        : surroundings(newFile.text, changedRange(oldFile.text, newFile.text))
    const state =
      after === undefined ? ' It is missing now.' : before === undefined ? ' It is there again.' : ''
    const moved = partner === undefined ? '' : ` With it, the move from or to ${partner} is taken back.`
    return editorResult(command, {
      content: [textBlock(`The last edit of ${command.path} is undone.${state}${moved}${snippetText}`)],
      prev_exist: before !== undefined,
      old_content: textForEvent(oldFile && restoreLineEnds(oldFile)),
      new_content: textForEvent(newFile && restoreLineEnds(newFile)),
    })
  }
}

/** The members of an observation of a failure. */
export function failedEditorResult({ command }: EditorCommand): Omit<EditorResult, 'content'> {
  return { command, path: null, prev_exist: true, old_content: null, new_content: null }
}

function editorResult(
  { command, path }: EditorCommand,
  result: Partial<EditorResult> & Pick<EditorResult, 'content'>,
): EditorResult {
  return { command, path, prev_exist: true, old_content: null, new_content: null, ...result }
}

function surroundings(text: string, range: { readonly from: number; readonly to: number }): string {
  return ` These are the lines around it now:\n${snippetAround(text, { ...range, maxChars: maxChars - 1000 })}`
}

function viewText(path: string, text: string, range: readonly number[] | undefined): string {
  const total = countLines(text)
  if (total === 0 && range === undefined) return `${path} is empty.`
  const { first, last, note } = resolveLineRange(range ?? [1, -1], total)
  const hint = 'Use view_range to see a part.'
  const heading = `${path}, ${range === undefined ? pluralize(total, 'line') : `lines ${first} to ${last} of ${total}`}:`
  return `${heading}\n${numberLines(text, { first, last, maxChars: maxChars - heading.length - 200, separator: '\t', hint })}${note}`
}

function resolveLineRange(range: readonly number[], total: number) {
  const [first, last, ...extra] = range
  const form = 'view_range has to be two numbers, the first and the last line; -1 stands for the end.'
  if (first === undefined || last === undefined || extra.length > 0) throw new ToolError(form)
  if (total === 0) throw new ToolError('The file is empty: it has no line to view.')
  if (first < 1 || first > total)
    throw new ToolError(`view_range begins with line ${first}, but the file has lines 1 to ${total}.`)
  if (last !== -1 && last < first)
    throw new ToolError(`view_range ends with line ${last}, before its beginning at line ${first}.`)
  if (last > total) return { first, last: total, note: `\n[The file ends with line ${total}.]` }
  return { first, last: last === -1 ? total : last, note: '' }
}
