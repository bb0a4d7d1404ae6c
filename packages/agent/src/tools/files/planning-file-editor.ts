import { dirname, join, resolve } from 'node:path'
import { makeDirectory } from '@slipway/shared/fs'
import type { Workspace } from '../../workspace/workspace.ts'
import { defineTool } from '../core/define-tool.ts'
import { createFile, fileMutex, lstatIfExists } from '../core/file-access.ts'
import type { ToolFactory } from '../core/tool.ts'
import { ToolFailure } from '../core/tool-failure.ts'
import { type EditorCommand, FileEditor, failedEditorResult } from './editor.ts'

const planHeadings = [
  '# Plan',
  '## Goal',
  '## What is there',
  '## Approach',
  '## Steps',
  '## How it is checked',
  '## Risks and open questions',
]

/** Views any file and changes only the plan. Parameter `plan_path`: path of the plan in the workspace. */
export const openPlanningFileEditor: ToolFactory = (context, params) => {
  const editor = new FileEditor(context)
  const { workspace } = context
  const configuredPath = typeof params.plan_path === 'string' ? params.plan_path : undefined
  return [
    defineTool({
      directory: import.meta.dirname,
      tool: 'PlanningFileEditorTool',
      action: 'PlanningFileEditorAction',
      observation: 'PlanningFileEditorObservation',
      resources: ({ path }) => [`file:${resolve(workspace.directory, path)}`],
      run: async (action, signal) => {
        await preparePlan(action, workspace, await resolvePlanPath(workspace, configuredPath))
        return await editor.run(action, signal)
      },
      failureMembers: failedEditorResult,
    }),
  ]
}

/** `PLAN.md` at the root of the workspace if it exists, otherwise in `.agents_tmp`. */
async function resolvePlanPath(workspace: Workspace, configuredPath: string | undefined): Promise<string> {
  if (configuredPath !== undefined) return await workspace.resolve(configuredPath, 'write')
  const rootPlan = await workspace.resolve('PLAN.md', 'write')
  if (await lstatIfExists(rootPlan)) return rootPlan
  return await workspace.resolve(join('.agents_tmp', 'PLAN.md'), 'write')
}

/** Refuses changes of other files; creates the plan with its headings if it does not exist. */
async function preparePlan(
  { command, path }: EditorCommand,
  workspace: Workspace,
  plan: string,
): Promise<void> {
  const isPlan = (await workspace.resolve(path, command === 'view' ? 'read' : 'write')) === plan
  if (!isPlan && command !== 'view')
    throw new ToolFailure(`Only the plan may be changed, and it is ${plan}; every other file can be viewed.`)
  if (!isPlan) return
  await fileMutex.runExclusive(plan, async () => {
    await makeDirectory(dirname(plan))
    if (command !== 'create' && (await lstatIfExists(plan)) === undefined)
      await createFile(plan, Buffer.from(`${planHeadings.join('\n\n')}\n`))
  })
}
