import { dirname, resolve } from 'node:path'
import { makeRealDirectory } from '@slipway/shared/tool-files'
import { withCallMember } from '../core/call-member.ts'
import { defineTool } from '../core/define-tool.ts'
import {
  checkFileSize,
  createFile,
  fileMutex,
  lstatIfExists,
  maxFileBytes,
  readExistingFile,
  readFileIfExists,
} from '../core/file-access.ts'
import { replaceLinkedFile } from '../core/linked-files.ts'
import type { ToolAction, ToolContext, ToolFactory } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'
import { EditHistory, withHistory } from './edit-history.ts'
import {
  decodeText,
  encodeChange,
  encodeText,
  normalizeLineEnds,
  requireText,
  restoreLineEnds,
  utf8Format,
} from './encoding.ts'
import { countLines, pluralize, textForEvent } from './lines.ts'
import { findSimilarLines } from './match-lines.ts'
import { nearestLines } from './nearest-lines.ts'
import { replaceAll } from './replace-all.ts'
import { isSeen, markSeen, staleNote } from './seen-files.ts'
import { brokenByChange } from './syntax-check.ts'
import { describeLines, exactPlaces, replacePlaces, toleranceNote } from './text-changes.ts'

/** Replaces a text that occurs as often as expected; an empty old text creates the file. */
export const openEdit: ToolFactory = (context) => withCallMember(openPlainEdit(context), replaceAll)

const openPlainEdit = (context: ToolContext) =>
  defineTool({
    kind: 'Edit',
    resources: ({ file_path }) => [`file:${resolve(context.workspace.directory, file_path)}`],
    run: async (action, _, { replacesAll = false } = {}) => {
      const real = await context.workspace.resolve(action.file_path, 'write')
      return await fileMutex.runExclusive(real, () =>
        action.old_string === ''
          ? createNewFile(action, real, context)
          : replaceInFile(action, real, { ...context, replacesAll }),
      )
    },
    failureMembers: () => ({ file_path: null, is_new_file: false, replacements_made: 0 }),
  })

async function createNewFile(
  { file_path, new_string }: ToolAction<'EditAction'>,
  real: string,
  context: ToolContext,
) {
  const bytes = checkFileSize(file_path, encodeText({ ...utf8Format, text: new_string }))
  if ((await lstatIfExists(real)) !== undefined)
    throw new ToolError(
      `${file_path} exists already. To change it, give the old text that is to be replaced.`,
    )
  await makeRealDirectory(dirname(real))
  const history = new EditHistory(context.directory)
  await withHistory(history, real, { before: undefined, after: bytes }, () => createFile(real, bytes))
  markSeen(context.workspace, real, bytes)
  const issue = await brokenByChange(file_path, { before: undefined, after: new_string }, context)
  return {
    content: `Created ${file_path}.${issue}`,
    file_path: real,
    is_new_file: true,
    replacements_made: 0,
    old_content: null,
    new_content: textForEvent(new_string),
  }
}

async function replaceInFile(
  action: ToolAction<'EditAction'>,
  real: string,
  { replacesAll, ...context }: ToolContext & { readonly replacesAll: boolean },
) {
  const { file_path, old_string, new_string, expected_replacements: expectedCount } = action
  if (old_string === new_string)
    throw new ToolError('The old and the new text are the same, so nothing would change.')
  const { bytes, stats } = await readExistingFile(real)
  const stale = staleNote(context.workspace, real, bytes)
  const oldFile = requireText(file_path, bytes)
  const [oldText, newText] = [normalizeLineEnds(old_string, oldFile), normalizeLineEnds(new_string, oldFile)]
  const exact = exactPlaces(oldFile.text, oldText, newText)
  const { places, tolerated } =
    exact.length > 0 ? { places: exact, tolerated: [] } : findSimilarLines(oldFile.text, oldText, newText)
  const count = places.length
  if (count === 0)
    throw new ToolError(
      `The old text does not occur in ${file_path}. It has to be there exactly, with its white space.${nearestLines(oldFile.text, oldText)}`,
    )
  if (count !== expectedCount && !replacesAll)
    throw new ToolError(
      `The old text occurs ${count} times in ${file_path}, but ${expectedCount} were expected: in ${describeLines(oldFile.text, places)}. Add lines around it, or set replace_all.`,
    )
  const text = replacePlaces(oldFile.text, places)
  if (exact.length === 0 && text === oldFile.text)
    throw new ToolError(
      `The old text differs from ${file_path} only in ${tolerated.join(', ')}, and nothing would change.`,
    )
  const changed = encodeChange(oldFile, text)
  const after = checkFileSize(file_path, changed.bytes)
  const history = new EditHistory(context.directory)
  await withHistory(history, real, { before: { bytes, mode: stats.mode }, after }, () =>
    replaceLinkedFile(real, after, context.workspace),
  )
  markSeen(context.workspace, real, after)
  const issue = await brokenByChange(file_path, { before: oldFile.text, after: text }, context)
  return {
    content: `Changed ${file_path} in ${pluralize(count, 'place')}.${toleranceNote(tolerated)}${changed.note}${stale}${issue}`,
    file_path: real,
    is_new_file: false,
    replacements_made: count,
    old_content: textForEvent(restoreLineEnds(oldFile)),
    new_content: textForEvent(restoreLineEnds(changed.file)),
  }
}

/** Writes a whole file and creates missing directories. */
export const openWriteFile: ToolFactory = (context) =>
  defineTool({
    kind: 'WriteFile',
    resources: ({ file_path }) => [`file:${resolve(context.workspace.directory, file_path)}`],
    run: async (action) => {
      const real = await context.workspace.resolve(action.file_path, 'write')
      return await fileMutex.runExclusive(real, () => writeContent(action, real, context))
    },
    failureMembers: () => ({ file_path: null, is_new_file: false }),
  })

async function writeContent(
  { file_path, content }: ToolAction<'WriteFileAction'>,
  real: string,
  context: ToolContext,
) {
  const stats = await lstatIfExists(real)
  // A file that is too large to read may still be replaced.
  const old = stats !== undefined && stats.size > maxFileBytes ? undefined : await readFileIfExists(real)
  const oldFile = old && decodeText(old.bytes)
  // The whole content is new, so an unknown encoding does not matter. Line ends are those of the content.
  const likeOld = oldFile === undefined || oldFile.encoding === 'unknown-8-bit' ? utf8Format : oldFile
  const { bytes, note } = encodeChange({ text: '', encoding: likeOld.encoding, lineEnd: '\n' }, content)
  const encoded = checkFileSize(file_path, bytes)
  await makeRealDirectory(dirname(real))
  const unread = isSeen(context.workspace, real) ? '' : ' You had not read what it replaced.'
  const lost = old === undefined ? '' : staleNote(context.workspace, real, old.bytes) || unread
  const write = () => replaceLinkedFile(real, encoded, context.workspace)
  const before = old && { bytes: old.bytes, mode: old.stats.mode }
  // What is too large to be read has no undo.
  if (stats !== undefined && old === undefined) await write()
  else await withHistory(new EditHistory(context.directory), real, { before, after: encoded }, write)
  markSeen(context.workspace, real, encoded)
  const issue = await brokenByChange(file_path, { before: oldFile?.text, after: content }, context)
  return {
    content: `${stats === undefined ? 'Created' : 'Replaced'} ${file_path}: ${countLines(content)} lines.${note}${lost}${issue}`,
    file_path: real,
    is_new_file: stats === undefined,
    old_content: textForEvent(oldFile && restoreLineEnds(oldFile)),
    new_content: textForEvent(content),
  }
}
