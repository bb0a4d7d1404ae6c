import { basename, dirname, isAbsolute, join, sep } from 'node:path'
import type { Workspace } from '../../workspace/workspace.ts'
import { ownTool } from '../core/define-tool.ts'
import { look, Refused } from '../core/file-access.ts'
import type { OpenTools, ToolAction } from '../core/tool.ts'
import { fitting, printable } from '../files/lines.ts'
import { findFiles } from './ripgrep.ts'

const maxFiles = 100

/** Finds files by a pattern of their path, the newest first. */
export const openGlob: OpenTools = ({ workspace }) => [
  ownTool({
    directory: import.meta.dirname,
    tool: 'GlobTool',
    action: 'GlobAction',
    observation: 'GlobObservation',
    resources: () => [],
    run: async (action, signal) => {
      const { directory, pattern } = await place(action, workspace)
      const isHiddenSearched = /(^|[/{,])\.[^/]/.test(pattern)
      const found = await findFiles(workspace, { directory, glob: pattern, isHiddenSearched }, signal)
      const paths = found.files.map((path) => join(directory, path))
      const files = fitting(paths, maxFiles)
      const truncated = files.length < paths.length || !found.isComplete
      return {
        content: told(action.pattern, directory, { files, truncated }),
        files,
        pattern: action.pattern,
        search_path: directory,
        truncated,
      }
    },
    failed: ({ pattern, path }) => ({
      files: [],
      pattern,
      search_path: path ?? workspace.directory,
      truncated: false,
    }),
  }),
]

/** Where to look and for what: of an absolute pattern the part before the first wild card is the directory. */
async function place(
  { pattern, path }: ToolAction<'GlobAction'>,
  workspace: Workspace,
): Promise<{ directory: string; pattern: string }> {
  if (pattern.trim() === '') throw new Refused('The pattern is empty. Give one such as **/*.ts.')
  if (!isAbsolute(pattern))
    return { directory: await directoryOf(path ?? '.', workspace), pattern: pattern.replace(/^(\.\/)+/, '') }
  const parts = pattern.split(sep)
  const wild = parts.findIndex((part) => /[*?[{]/.test(part))
  const base = wild === -1 ? dirname(pattern) : parts.slice(0, wild).join(sep) || sep
  const rest = wild === -1 ? basename(pattern) : parts.slice(wild).join(sep)
  // A slash in front ties a name to the directory, where it would match at any depth.
  return { directory: await directoryOf(base, workspace), pattern: wild === -1 ? sep + rest : rest }
}

async function directoryOf(path: string, workspace: Workspace): Promise<string> {
  const real = await workspace.resolve(path, 'read')
  const stats = await look(real)
  if (stats === undefined) throw new Refused(`There is no directory ${path}.`)
  if (!stats.isDirectory()) throw new Refused(`${path} is not a directory.`)
  return real
}

function told(
  pattern: string,
  directory: string,
  { files, truncated }: { files: readonly string[]; truncated: boolean },
): string {
  if (files.length === 0) return `No file below ${directory} matches ${pattern}.`
  const note = truncated
    ? [`[Only the newest ${files.length} are listed; use a narrower pattern for others.]`]
    : []
  return [...files.map(printable), ...note].join('\n')
}
