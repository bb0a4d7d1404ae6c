import { resolve } from 'node:path'
import { firstChars } from '@slipway/shared/text'
import { lstat } from '@slipway/shared/tool-files'
import { defineTool } from '../core/define-tool.ts'
import { lstatIfExists, readExistingFile } from '../core/file-access.ts'
import { outputLimits } from '../core/output-limits.ts'
import { type ToolFactory, textBlock } from '../core/tool.ts'
import { failureText, ToolError } from '../core/tool-failure.ts'
import { truncateOutput } from '../core/truncate.ts'
import { viewDocument } from '../documents/view-document.ts'
import { requireText } from './encoding.ts'
import { countLines, limitForEvent, lineOffset, numberLines } from './lines.ts'
import { type DirectoryEntry, entryLabel, listDirectory } from './listing.ts'
import { markSeen } from './seen-files.ts'

const maxChars = outputLimits.read_file
const maxEntries = 500
const defaultLimit = 1000

/** Reads a text file or some of its lines. */
export const openReadFile: ToolFactory = ({ workspace, directory }) =>
  defineTool({
    kind: 'ReadFile',
    resources: ({ file_path }) => [`file:${resolve(workspace.directory, file_path)}`],
    run: async ({ file_path, offset, limit }, signal) => {
      const real = await workspace.resolve(file_path, 'read')
      const { bytes } = await readExistingFile(real)
      markSeen(workspace, real, bytes)
      const range = offset == null && limit == null ? undefined : pageRange(offset ?? 0, limit ?? undefined)
      const document = await viewDocument(file_path, bytes, { range, signal })
      if (document !== undefined) {
        const { text } = await truncateOutput(document.text, { directory, tool: 'read_file', maxChars })
        return {
          file_path: real,
          content: [textBlock(text), ...document.pictures],
          file_content: '',
          is_truncated: text !== document.text,
          lines_shown: null,
          total_lines: null,
        }
      }
      const file = requireText(file_path, bytes)
      return { file_path: real, ...selectLines(file.text, offset ?? 0, limit ?? defaultLimit) }
    },
    failureMembers: ({ file_path }) => ({ file_path, file_content: '', is_truncated: false }),
  })

function pageRange(offset: number, limit: number | undefined): readonly number[] {
  return [offset + 1, limit === undefined ? -1 : offset + limit]
}

function selectLines(fullText: string, offset: number, limit: number) {
  const total_lines = countLines(fullText)
  if (total_lines === 0 && offset === 0)
    return {
      content: 'The file is empty.',
      file_content: '',
      is_truncated: false,
      lines_shown: null,
      total_lines,
    }
  if (offset >= total_lines)
    throw new ToolError(
      `The offset is ${offset}, but the file has ${total_lines} lines (offsets 0 to ${total_lines - 1}).`,
    )
  const [first, last] = [offset + 1, Math.min(total_lines, offset + limit)]
  const start = lineOffset(fullText, first)
  const text = fullText.slice(start, start + lineOffset(fullText.slice(start), last - offset + 1))
  const hint = 'Use offset and limit to see a part.'
  const body = numberLines(fullText, { first, last, maxChars: maxChars - 200, separator: '  ', hint })
  const continuation =
    last < total_lines ? `\n[${total_lines - last} lines follow; the next offset is ${last}.]` : ''
  return {
    content: body + continuation,
    file_content: firstChars(text, maxChars),
    is_truncated: text.length > maxChars || last - first + 1 < total_lines,
    lines_shown: [first, last],
    total_lines,
  }
}

/** Lists a directory, hidden entries too. */
export const openListDirectory: ToolFactory = ({ workspace, directory }) =>
  defineTool({
    kind: 'ListDirectory',
    run: async ({ dir_path, recursive }, signal) => {
      const real = await workspace.resolve(dir_path, 'read')
      if ((await lstatIfExists(real)) === undefined) throw new ToolError(`There is no directory ${dir_path}.`)
      const levels = recursive ? 2 : 1
      const listing = await listDirectory(real, { levels, includesHidden: true }, signal)
      const described = await Promise.all(listing.entries.slice(0, maxEntries).map(describeEntry))
      const entries = limitForEvent(
        described.map(({ entry }) => entry),
        maxEntries,
      )
      const omittedCount = listing.entries.length - entries.length
      const lines = described.slice(0, entries.length).map(({ line }) => line)
      if (omittedCount > 0)
        lines.push(`[${omittedCount} more are left out. List a directory below, or use glob.]`)
      const output = lines.length === 0 ? `${dir_path} is empty.` : [`${dir_path}:`, ...lines].join('\n')
      const { text } = await truncateOutput(output, {
        directory,
        tool: 'list_directory',
        maxChars: outputLimits.list_directory,
      })
      return {
        content: text,
        dir_path: real,
        entries,
        total_count: listing.entries.length,
        is_truncated: omittedCount > 0 || !listing.isComplete,
      }
    },
    failureMembers: () => ({ dir_path: null, entries: [], total_count: 0, is_truncated: false }),
  })

/** An entry for the wire and as a line for the model. */
async function describeEntry(entry: DirectoryEntry) {
  const { name, isDirectory } = entry
  const stats = await lstat(entry.rawPath).catch((error: unknown) => {
    if (failureText(error) === undefined) throw error
    return undefined
  })
  const modified_time = new Date(stats?.mtimeMs ?? 0).toISOString()
  const size = stats?.size ?? 0
  const path = entry.rawPath.toString('utf8')
  const line = entryLabel(entry) + (isDirectory ? '' : `  ${size} bytes`)
  return {
    entry: { name, path, is_directory: isDirectory, size, modified_time },
    line: `${line}  ${modified_time.slice(0, 19)}Z`,
  }
}
