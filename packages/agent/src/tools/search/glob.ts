import { basename, dirname, isAbsolute, sep } from 'node:path'
import type { Workspace } from '../../workspace/workspace.ts'
import { defineTool } from '../core/define-tool.ts'
import { lstatIfExists } from '../core/file-access.ts'
import type { ToolAction, ToolFactory } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'
import { limitMatches, namesHidden } from './matches.ts'
import { findFiles } from './ripgrep.ts'

/** Finds files by a pattern of their path, the newest first. */
export const openGlob: ToolFactory = ({ workspace }) =>
  defineTool({
    kind: 'Glob',
    run: async (action, signal) => {
      const { directory, pattern } = await resolveSearch(action, workspace)
      const includesHidden = namesHidden(pattern)
      const result = await findFiles(workspace, { directory, glob: pattern, includesHidden }, signal)
      const none = `No file below ${directory} matches ${action.pattern}.`
      const { matches, notes: _, ...shown } = limitMatches(directory, result, { none, narrower: 'pattern' })
      return { ...shown, files: matches, pattern: action.pattern, search_path: directory }
    },
    failureMembers: ({ pattern, path }) => ({
      files: [],
      pattern,
      search_path: path ?? workspace.directory,
      truncated: false,
    }),
  })

/**
 * Directory and pattern to search; the directory of an absolute pattern is the part before the first
 * wildcard.
 */
async function resolveSearch({ pattern, path }: ToolAction<'GlobAction'>, workspace: Workspace) {
  if (pattern.trim() === '') throw new ToolError('The pattern is empty. Give one such as **/*.ts.')
  if (!isAbsolute(pattern)) {
    const directory = await resolveDirectory(path ?? '.', workspace)
    return { directory, pattern: pattern.replace(/^(\.\/)+/, '') }
  }
  const parts = pattern.split(sep)
  const wildcardIndex = parts.findIndex((part) => /[*?[{]/.test(part))
  // Without the leading slash, a name would match at any depth.
  const isName = wildcardIndex === -1
  const base = isName ? dirname(pattern) : parts.slice(0, wildcardIndex).join(sep) || sep
  const directory = await resolveDirectory(base, workspace)
  return { directory, pattern: isName ? sep + basename(pattern) : parts.slice(wildcardIndex).join(sep) }
}

async function resolveDirectory(path: string, workspace: Workspace): Promise<string> {
  const real = await workspace.resolve(path, 'read')
  const stats = await lstatIfExists(real)
  if (stats === undefined) throw new ToolError(`There is no directory ${path}.`)
  if (!stats.isDirectory()) throw new ToolError(`${path} is not a directory.`)
  return real
}
