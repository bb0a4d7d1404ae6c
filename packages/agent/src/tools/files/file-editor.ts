import { dirname, isAbsolute, resolve } from 'node:path'
import { makeRealDirectory } from '@slipway/shared/tool-files'
import type { Workspace } from '../../workspace/workspace.ts'
import { withCallMember } from '../core/call-member.ts'
import { defineTool } from '../core/define-tool.ts'
import { createFile, fileMutex, lstatIfExists } from '../core/file-access.ts'
import type { Tool, ToolContext, ToolFactory, ToolRunOptions } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'
import { type EditorCommand, FileEditor, failedEditorResult } from './editor.ts'
import { replaceAll } from './replace-all.ts'

const planHeadings = [
  '# Plan',
  '## Goal',
  '## What is there',
  '## Approach',
  '## Steps',
  '## How it is checked',
  '## Risks and open questions',
]

/** Views, creates and edits files by absolute path; the last ten edits of each file can be undone. */
export const openFileEditor: ToolFactory = (context) =>
  withCallMember(
    withAbsolutePaths(defineTool({ kind: 'FileEditor', ...editorMembers(context) }), context.workspace),
    replaceAll,
  )

/** Views any file and changes only the plan. Parameter `plan_path`: path of the plan in the workspace. */
export const openPlanningFileEditor: ToolFactory = (context, { plan_path }) => {
  const configuredPath = typeof plan_path === 'string' ? plan_path : undefined
  const prepare = (command: EditorCommand) => preparePlan(command, context.workspace, configuredPath)
  return withAbsolutePaths(
    defineTool({ kind: 'PlanningFileEditor', ...editorMembers(context, prepare) }),
    context.workspace,
  )
}

/**
 * A relative path is one of the workspace: the action has the absolute one, which is asked about and used.
 */
function withAbsolutePaths(tool: Tool, { directory }: Workspace): Tool {
  return {
    ...tool,
    parse: (args) => {
      const parsed = tool.parse(args)
      if (!('action' in parsed) || !('path' in parsed.action) || typeof parsed.action.path !== 'string')
        return parsed
      const { path } = parsed.action
      // `C:\a` is of another system.
      if (path === '' || isAbsolute(path) || path.includes('\\')) return parsed
      return { action: { ...parsed.action, path: resolve(directory, path) } as typeof parsed.action } // but for its path the same
    },
  }
}

function editorMembers(context: ToolContext, prepare?: (command: EditorCommand) => Promise<void>) {
  const editor = new FileEditor(context, prepare !== undefined)
  return {
    resources: ({ path }: EditorCommand) => [`file:${resolve(context.workspace.directory, path)}`],
    run: async (command: EditorCommand, signal: AbortSignal, options?: ToolRunOptions) => {
      await prepare?.(command)
      return await editor.run(command, signal, options)
    },
    failureMembers: failedEditorResult,
  }
}

/** Refuses changes of other files; creates the plan with its headings if it does not exist. */
async function preparePlan(
  { command, path }: EditorCommand,
  workspace: Workspace,
  configuredPath: string | undefined,
): Promise<void> {
  const plan = await resolvePlanPath(workspace, configuredPath)
  const isPlan = (await workspace.resolve(path, command === 'view' ? 'read' : 'write')) === plan
  if (!isPlan && command !== 'view')
    throw new ToolError(`Only the plan may be changed, and it is ${plan}; every other file can be viewed.`)
  if (!isPlan) return
  await fileMutex.runExclusive(plan, async () => {
    await makeRealDirectory(dirname(plan))
    if (command !== 'create' && (await lstatIfExists(plan)) === undefined)
      await createFile(plan, Buffer.from(`${planHeadings.join('\n\n')}\n`))
  })
}

/** `PLAN.md` at the root of the workspace if it exists, otherwise in `.agents_tmp`. */
async function resolvePlanPath(workspace: Workspace, configuredPath: string | undefined): Promise<string> {
  if (configuredPath !== undefined) return await workspace.resolve(configuredPath, 'write')
  const rootPlan = await workspace.resolve('PLAN.md', 'write')
  if (await lstatIfExists(rootPlan)) return rootPlan
  return await workspace.resolve('.agents_tmp/PLAN.md', 'write')
}
