import { basename, dirname, join } from 'node:path'
import type { Workspace } from '../../workspace/workspace.ts'
import { defineTool } from '../core/define-tool.ts'
import { lstatIfExists } from '../core/file-access.ts'
import { outputLimits } from '../core/output-limits.ts'
import type { ToolAction, ToolFactory } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'
import { truncateOutput } from '../core/truncate.ts'
import { printableName } from '../files/lines.ts'
import { limitMatches, namesHidden } from './matches.ts'
import { fileMatches, findFiles, matchingLines, type SearchResult } from './ripgrep.ts'

/** Shown lines of one file, and of all. */
const maxFileLines = 30
const maxLines = 200
/** At most this number of matching lines is shown with the lines around them. */
const maxWithContext = 10
const contextLines = 2

/** Finds the lines in which a regular expression matches, by file, the newest file first. */
export const openGrep: ToolFactory = ({ workspace, directory }) =>
  defineTool({
    kind: 'Grep',
    run: async (action, signal) => {
      const searchPath = await workspace.resolve(action.path ?? '.', 'read')
      const result = await searchFiles(searchPath, action, { workspace, signal })
      const filterNote = action.include ? ` among the files ${action.include}` : ''
      const limited = limitMatches(result.directory, result, {
        none: `No file in ${searchPath}${filterNote} matches ${action.pattern}.`,
        narrower: 'pattern or directory',
      })
      const files = result.files.slice(0, limited.matches.length)
      const lines =
        files.length === 0 ? [] : await describeMatches({ ...result, files }, action, { workspace, signal })
      const shown = files.length === 0 ? limited.content : [...lines, ...limited.notes].join('\n')
      const { text } = await truncateOutput(shown, { directory, tool: 'grep', maxChars: outputLimits.grep })
      return {
        content: text,
        matches: limited.matches,
        truncated: limited.truncated,
        pattern: action.pattern,
        search_path: searchPath,
        include_pattern: action.include ?? null,
      }
    },
    failureMembers: ({ pattern, path, include }) => ({
      matches: [],
      pattern,
      search_path: path ?? workspace.directory,
      include_pattern: include ?? null,
      truncated: false,
    }),
  })

/** Each file with its matching lines, up to a number of them. */
async function describeMatches(
  { directory, files }: { readonly directory: string; readonly files: readonly string[] },
  { pattern }: ToolAction<'GrepAction'>,
  { workspace, signal }: { readonly workspace: Workspace; readonly signal: AbortSignal },
): Promise<string[]> {
  const search = { directory, files, regex: pattern, maxLines: maxFileLines + 1 }
  const matches = await matchingLines(workspace, search, signal)
  const count = matches.values().reduce((sum, lines) => sum + lines.length, 0)
  const hasContext = count > 0 && count <= maxWithContext
  const found = hasContext
    ? await matchingLines(workspace, { ...search, context: contextLines }, signal)
    : matches
  const perFile = hasContext ? maxLines : maxFileLines
  let left = maxLines
  return files.flatMap((file) => {
    const lines = found.get(file) ?? []
    const shown = lines.slice(0, Math.min(perFile, left))
    left -= shown.length
    return [
      printableName(join(directory, file)),
      ...shown.map(
        ({ number, text, isMatch }) =>
          `${String(number).padStart(6)}${isMatch ? ':' : '-'} ${printableLine(text)}`,
      ),
      ...(shown.length < lines.length ? ['        [more lines match]'] : []),
    ]
  })
}

/** A line without control characters, except tabs. */
function printableLine(text: string): string {
  return text.replace(/(?!\t)\p{Cc}/gu, '\ufffd')
}

async function searchFiles(
  searchPath: string,
  { pattern, include }: ToolAction<'GrepAction'>,
  { workspace, signal }: { readonly workspace: Workspace; readonly signal: AbortSignal },
): Promise<SearchResult & { readonly directory: string }> {
  const stats = await lstatIfExists(searchPath)
  if (stats === undefined) throw new ToolError(`There is no file or directory ${searchPath}.`)
  if (stats.isFile()) {
    const [directory, name] = [dirname(searchPath), basename(searchPath)]
    const isMatch = await fileMatches(workspace, { directory, name, regex: pattern }, signal)
    return { directory, files: isMatch ? [name] : [], isComplete: true }
  }
  if (!stats.isDirectory()) throw new ToolError(`${searchPath} is neither a file nor a directory.`)
  const glob = include ? { glob: include.replace(/^(\.\/)+/, '') } : {}
  const includesHidden = include != null && namesHidden(include)
  const options = { directory: searchPath, regex: pattern, includesHidden, ...glob }
  return { directory: searchPath, ...(await findFiles(workspace, options, signal)) }
}
