import { lstat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { defineTool } from '../core/define-tool.ts'
import { lstatIfExists, readExistingFile } from '../core/file-access.ts'
import type { ToolContext, ToolFactory } from '../core/tool.ts'
import { failureText, ToolFailure } from '../core/tool-failure.ts'
import { truncateOutput } from '../core/truncate.ts'
import { requireText } from './encoding.ts'
import { countLines, limitForEvent, lineOffset, numberLines, printableName } from './lines.ts'
import { type DirectoryEntry, listDirectory } from './listing.ts'

const maxChars = 50_000
const maxEntries = 500
const defaultLimit = 1000

/** Reads a text file or some of its lines. */
export const openReadFile: ToolFactory = ({ workspace }) =>
  defineTool({
    kind: 'ReadFile',
    resources: ({ file_path }) => [`file:${resolve(workspace.directory, file_path)}`],
    run: async ({ file_path, offset, limit }) => {
      const real = await workspace.resolve(file_path, 'read')
      const file = requireText(file_path, (await readExistingFile(real)).bytes)
      const selection = selectLines(file.text, offset ?? 0, limit ?? defaultLimit)
      return {
        content: selection.message,
        file_path: real,
        file_content: selection.content,
        is_truncated: selection.isTruncated,
        lines_shown: selection.total === 0 ? null : [selection.first, selection.last],
        total_lines: selection.total,
      }
    },
    failureMembers: ({ file_path }) => ({
      file_path,
      file_content: '',
      is_truncated: false,
    }),
  })

function selectLines(fullText: string, offset: number, limit: number) {
  const total = countLines(fullText)
  if (total === 0 && offset === 0)
    return { message: 'The file is empty.', content: '', isTruncated: false, first: 0, last: 0, total }
  if (offset >= total)
    throw new ToolFailure(
      `The offset is ${offset}, but the file has ${total} lines (offsets 0 to ${total - 1}).`,
    )
  const [first, last] = [offset + 1, Math.min(total, offset + limit)]
  const start = lineOffset(fullText, first)
  const content = fullText.slice(start, start + lineOffset(fullText.slice(start), last - offset + 1))
  const hint = 'Use offset and limit to see a part.'
  const body = numberLines(fullText, { first, last, maxChars: maxChars - 200, separator: '  ', hint })
  const continuation = last < total ? `\n[${total - last} lines follow; the next offset is ${last}.]` : ''
  const isTruncated = content.length > maxChars
  return {
    message: body + continuation,
    content: isTruncated ? content.slice(0, maxChars) : content,
    isTruncated: isTruncated || last - first + 1 < total,
    first,
    last,
    total,
  }
}

/** Lists a directory, hidden entries too. */
export const openListDirectory: ToolFactory = (context) =>
  defineTool({
    kind: 'ListDirectory',
    run: async ({ dir_path, recursive }, signal) => {
      const real = await context.workspace.resolve(dir_path, 'read')
      if ((await lstatIfExists(real)) === undefined)
        throw new ToolFailure(`There is no directory ${dir_path}.`)
      const levels = recursive ? 2 : 1
      const listing = await listDirectory(real, { levels, includesHidden: true }, signal)
      const described = await Promise.all(listing.entries.slice(0, maxEntries).map(describeEntry))
      const entries = limitForEvent(
        described.flatMap(({ entry }) => entry ?? []),
        maxEntries,
      )
      const omittedCount = listing.entries.length - entries.length
      const message = await listingText(dir_path, described.slice(0, entries.length), {
        omittedCount,
        context,
      })
      return {
        content: message,
        dir_path: real,
        entries,
        total_count: listing.entries.length,
        is_truncated: omittedCount > 0 || !listing.isComplete,
      }
    },
    failureMembers: () => ({
      dir_path: null,
      entries: [],
      total_count: 0,
      is_truncated: false,
    }),
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
  const label = printableName(entry.path) + (isDirectory ? '/' : entry.isLink ? ' (link)' : '')
  const line = isDirectory ? label : `${label}  ${size} bytes`
  return {
    entry: { name, path, is_directory: isDirectory, size, modified_time },
    line: `${line}  ${modified_time.slice(0, 19)}Z`,
  }
}

async function listingText(
  path: string,
  entries: readonly { readonly line: string }[],
  { omittedCount, context }: { readonly omittedCount: number; readonly context: ToolContext },
): Promise<string> {
  if (entries.length === 0 && omittedCount === 0) return `${path} is empty.`
  const omission =
    omittedCount > 0 ? [`[${omittedCount} more are left out. List a directory below, or use glob.]`] : []
  const listing = [`${path}:`, ...entries.map(({ line }) => line), ...omission].join('\n')
  const { directory } = context
  return (await truncateOutput(listing, { directory, tool: 'list_directory', maxChars })).text
}
