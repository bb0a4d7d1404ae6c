import { basename, dirname, isAbsolute, join, sep } from 'node:path'
import type { Workspace } from '../../workspace/workspace.ts'
import { defineTool } from '../core/define-tool.ts'
import { lstatIfExists } from '../core/file-access.ts'
import type { ToolAction, ToolFactory } from '../core/tool.ts'
import { ToolFailure } from '../core/tool-failure.ts'
import { limitForEvent, printableName } from '../files/lines.ts'
import { findFiles } from './ripgrep.ts'

const maxFiles = 100

/** Finds files by a pattern of their path, the newest first. */
export const openGlob: ToolFactory = ({ workspace }) => [
  defineTool({
    directory: import.meta.dirname,
    tool: 'GlobTool',
    action: 'GlobAction',
    observation: 'GlobObservation',
    resources: () => [],
    run: async (action, signal) => {
      const { directory, pattern } = await resolveSearch(action, workspace)
      const includesHidden = /(^|[/{,])\.[^/]/.test(pattern)
      const result = await findFiles(workspace, { directory, glob: pattern, includesHidden }, signal)
      const paths = result.files.map((path) => join(directory, path))
      const files = limitForEvent(paths, maxFiles)
      const truncated = files.length < paths.length || !result.isComplete
      return {
        content: resultText(action.pattern, directory, { files, truncated }),
        files,
        pattern: action.pattern,
        search_path: directory,
        truncated,
      }
    },
    failureMembers: ({ pattern, path }) => ({
      files: [],
      pattern,
      search_path: path ?? workspace.directory,
      truncated: false,
    }),
  }),
]

/** Where to look and for what: of an absolute pattern the part before the first wild card is the directory. */
async function resolveSearch(
  { pattern, path }: ToolAction<'GlobAction'>,
  workspace: Workspace,
): Promise<{ directory: string; pattern: string }> {
  if (pattern.trim() === '') throw new ToolFailure('The pattern is empty. Give one such as **/*.ts.')
  if (!isAbsolute(pattern))
    return {
      directory: await resolveDirectory(path ?? '.', workspace),
      pattern: pattern.replace(/^(\.\/)+/, ''),
    }
  const parts = pattern.split(sep)
  const wildcardIndex = parts.findIndex((part) => /[*?[{]/.test(part))
  const base = wildcardIndex === -1 ? dirname(pattern) : parts.slice(0, wildcardIndex).join(sep) || sep
  const remainder = wildcardIndex === -1 ? basename(pattern) : parts.slice(wildcardIndex).join(sep)
  // A slash in front ties a name to the directory, where it would match at any depth.
  return {
    directory: await resolveDirectory(base, workspace),
    pattern: wildcardIndex === -1 ? sep + remainder : remainder,
  }
}

async function resolveDirectory(path: string, workspace: Workspace): Promise<string> {
  const real = await workspace.resolve(path, 'read')
  const stats = await lstatIfExists(real)
  if (stats === undefined) throw new ToolFailure(`There is no directory ${path}.`)
  if (!stats.isDirectory()) throw new ToolFailure(`${path} is not a directory.`)
  return real
}

function resultText(
  pattern: string,
  directory: string,
  { files, truncated }: { files: readonly string[]; truncated: boolean },
): string {
  if (files.length === 0) return `No file below ${directory} matches ${pattern}.`
  const note = truncated
    ? [`[Only the newest ${files.length} are listed; use a narrower pattern for others.]`]
    : []
  return [...files.map(printableName), ...note].join('\n')
}
