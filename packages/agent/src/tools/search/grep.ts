import { basename, dirname, join } from 'node:path'
import type { Workspace } from '../../workspace/workspace.ts'
import { ownTool } from '../core/define-tool.ts'
import { look, Refused } from '../core/file-access.ts'
import type { OpenTools, ToolAction } from '../core/tool.ts'
import { fitting, printable } from '../files/lines.ts'
import { type Found, findFiles, matchesIn } from './ripgrep.ts'

const maxFiles = 100

/** Finds the files in which a regular expression matches, the newest first. */
export const openGrep: OpenTools = ({ workspace }) => [
  ownTool({
    directory: import.meta.dirname,
    tool: 'GrepTool',
    action: 'GrepAction',
    observation: 'GrepObservation',
    resources: () => [],
    run: async (action, signal) => {
      const place = await workspace.resolve(action.path ?? '.', 'read')
      const { directory, files: found, isComplete } = await search(place, action, { workspace, signal })
      const paths = found.map((path) => join(directory, path))
      const matches = fitting(paths, maxFiles)
      const truncated = matches.length < paths.length || !isComplete
      return {
        content: told(action, place, { matches, truncated }),
        matches,
        pattern: action.pattern,
        search_path: place,
        include_pattern: action.include ?? null,
        truncated,
      }
    },
    failed: ({ pattern, path, include }) => ({
      matches: [],
      pattern,
      search_path: path ?? workspace.directory,
      include_pattern: include ?? null,
      truncated: false,
    }),
  }),
]

async function search(
  place: string,
  { pattern, include }: ToolAction<'GrepAction'>,
  { workspace, signal }: { readonly workspace: Workspace; readonly signal: AbortSignal },
): Promise<Found & { readonly directory: string }> {
  const stats = await look(place)
  if (stats === undefined) throw new Refused(`There is no file or directory ${place}.`)
  if (stats.isFile()) {
    const [directory, name] = [dirname(place), basename(place)]
    const isMatch = await matchesIn(workspace, { directory, name, regex: pattern }, signal)
    return { directory, files: isMatch ? [name] : [], isComplete: true }
  }
  if (!stats.isDirectory()) throw new Refused(`${place} is neither a file nor a directory.`)
  const glob = include ? { glob: include.replace(/^(\.\/)+/, '') } : {}
  const options = { directory: place, regex: pattern, isHiddenSearched: Boolean(include), ...glob }
  return { directory: place, ...(await findFiles(workspace, options, signal)) }
}

function told(
  { pattern, include }: ToolAction<'GrepAction'>,
  place: string,
  { matches, truncated }: { matches: readonly string[]; truncated: boolean },
): string {
  const among = include ? ` among the files ${include}` : ''
  if (matches.length === 0) return `No file in ${place}${among} matches ${pattern}.`
  const note = truncated
    ? [`[Only the newest ${matches.length} are listed; use a narrower pattern or directory for others.]`]
    : []
  return [...matches.map(printable), ...note].join('\n')
}
