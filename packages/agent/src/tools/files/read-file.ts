import { lstat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { ownTool } from '../core/define-tool.ts'
import { failureText, look, Refused, readWhole } from '../core/file-access.ts'
import type { OpenTools, ToolContext } from '../core/tool.ts'
import { truncate } from '../core/truncate.ts'
import { mustBeText } from './encoding.ts'
import { fitting, lineCount, lineStart, numbered, printable } from './lines.ts'
import { type Entry, listDirectory } from './listing.ts'

const maxChars = 50_000
const maxEntries = 500
const defaultLimit = 1000

/** Reads a text file or some of its lines. */
export const openReadFile: OpenTools = ({ workspace }) => [
  ownTool({
    directory: import.meta.dirname,
    tool: 'ReadFileTool',
    action: 'ReadFileAction',
    observation: 'ReadFileObservation',
    resources: ({ file_path }) => [`file:${resolve(workspace.directory, file_path)}`],
    run: async ({ file_path, offset, limit }) => {
      const real = await workspace.resolve(file_path, 'read')
      const file = mustBeText(file_path, (await readWhole(real)).bytes)
      const part = lines(file.text, offset ?? 0, limit ?? defaultLimit)
      return {
        content: part.told,
        file_path: real,
        file_content: part.content,
        is_truncated: part.isCut,
        lines_shown: part.total === 0 ? null : [part.first, part.last],
        total_lines: part.total,
      }
    },
    failed: ({ file_path }) => ({
      file_path,
      file_content: '',
      is_truncated: false,
    }),
  }),
]

function lines(whole: string, offset: number, limit: number) {
  const total = lineCount(whole)
  if (total === 0 && offset === 0)
    return { told: 'The file is empty.', content: '', isCut: false, first: 0, last: 0, total }
  if (offset >= total)
    throw new Refused(`The offset is ${offset}, but the file has ${total} lines (offsets 0 to ${total - 1}).`)
  const [first, last] = [offset + 1, Math.min(total, offset + limit)]
  const start = lineStart(whole, first)
  const content = whole.slice(start, start + lineStart(whole.slice(start), last - offset + 1))
  const hint = 'Use offset and limit to see a part.'
  const shown = numbered(whole, { first, last, maxChars: maxChars - 200, gap: '  ', hint })
  const more = last < total ? `\n[${total - last} lines follow; the next offset is ${last}.]` : ''
  const isCut = content.length > maxChars
  return {
    told: shown + more,
    content: isCut ? content.slice(0, maxChars) : content,
    isCut: isCut || last - first + 1 < total,
    first,
    last,
    total,
  }
}

/** Lists a directory, hidden entries too. */
export const openListDirectory: OpenTools = (context) => [
  ownTool({
    directory: import.meta.dirname,
    tool: 'ListDirectoryTool',
    action: 'ListDirectoryAction',
    observation: 'ListDirectoryObservation',
    resources: () => [],
    run: async ({ dir_path, recursive }, signal) => {
      const real = await context.workspace.resolve(dir_path, 'read')
      if ((await look(real)) === undefined) throw new Refused(`There is no directory ${dir_path}.`)
      const levels = recursive ? 2 : 1
      const listing = await listDirectory(real, { levels, isHiddenListed: true }, signal)
      const all = await Promise.all(listing.entries.slice(0, maxEntries).map(described))
      const entries = fitting(
        all.flatMap(({ entry }) => entry ?? []),
        maxEntries,
      )
      const rest = listing.entries.length - entries.length
      const told = await tell(dir_path, all.slice(0, entries.length), { rest, context })
      return {
        content: told,
        dir_path: real,
        entries,
        total_count: listing.entries.length,
        is_truncated: rest > 0 || !listing.isComplete,
      }
    },
    failed: () => ({
      dir_path: null,
      entries: [],
      total_count: 0,
      is_truncated: false,
    }),
  }),
]

/** An entry as the wire has it and as a line for the model. */
async function described(entry: Entry) {
  const { name, isDirectory } = entry
  const stats = await lstat(entry.raw).catch((error: unknown) => {
    if (failureText(error) === undefined) throw error
    return undefined
  })
  const modified_time = new Date(stats?.mtimeMs ?? 0).toISOString()
  const size = stats?.size ?? 0
  const path = entry.raw.toString('utf8')
  const label = printable(entry.path) + (isDirectory ? '/' : entry.isLink ? ' (link)' : '')
  const line = isDirectory ? label : `${label}  ${size} bytes`
  return {
    entry: { name, path, is_directory: isDirectory, size, modified_time },
    line: `${line}  ${modified_time.slice(0, 19)}Z`,
  }
}

async function tell(
  path: string,
  listed: readonly { readonly line: string }[],
  { rest, context }: { readonly rest: number; readonly context: ToolContext },
): Promise<string> {
  if (listed.length === 0 && rest === 0) return `${path} is empty.`
  const more = rest > 0 ? [`[${rest} more are left out. List a directory below, or use glob.]`] : []
  const whole = [`${path}:`, ...listed.map(({ line }) => line), ...more].join('\n')
  const { directory } = context
  return (await truncate(whole, { directory, tool: 'list_directory', maxChars })).text
}
