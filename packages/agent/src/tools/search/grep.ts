import { basename, dirname } from 'node:path'
import type { Workspace } from '../../workspace/workspace.ts'
import { defineTool } from '../core/define-tool.ts'
import { lstatIfExists } from '../core/file-access.ts'
import type { ToolAction, ToolFactory } from '../core/tool.ts'
import { ToolFailure } from '../core/tool-failure.ts'
import { limitMatches } from './matches.ts'
import { fileMatches, findFiles, type SearchResult } from './ripgrep.ts'

/** Finds the files in which a regular expression matches, the newest first. */
export const openGrep: ToolFactory = ({ workspace }) =>
  defineTool({
    kind: 'Grep',
    run: async (action, signal) => {
      const searchPath = await workspace.resolve(action.path ?? '.', 'read')
      const result = await searchFiles(searchPath, action, { workspace, signal })
      const filterNote = action.include ? ` among the files ${action.include}` : ''
      return {
        ...limitMatches(result.directory, result, {
          none: `No file in ${searchPath}${filterNote} matches ${action.pattern}.`,
          narrower: 'pattern or directory',
        }),
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

async function searchFiles(
  searchPath: string,
  { pattern, include }: ToolAction<'GrepAction'>,
  { workspace, signal }: { readonly workspace: Workspace; readonly signal: AbortSignal },
): Promise<SearchResult & { readonly directory: string }> {
  const stats = await lstatIfExists(searchPath)
  if (stats === undefined) throw new ToolFailure(`There is no file or directory ${searchPath}.`)
  if (stats.isFile()) {
    const [directory, name] = [dirname(searchPath), basename(searchPath)]
    const isMatch = await fileMatches(workspace, { directory, name, regex: pattern }, signal)
    return { directory, files: isMatch ? [name] : [], isComplete: true }
  }
  if (!stats.isDirectory()) throw new ToolFailure(`${searchPath} is neither a file nor a directory.`)
  const glob = include ? { glob: include.replace(/^(\.\/)+/, '') } : {}
  const options = { directory: searchPath, regex: pattern, includesHidden: Boolean(include), ...glob }
  return { directory: searchPath, ...(await findFiles(workspace, options, signal)) }
}
