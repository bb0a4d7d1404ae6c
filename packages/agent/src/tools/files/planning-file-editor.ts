import { mkdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Workspace } from '../../workspace/workspace.ts'
import { ownTool } from '../core/define-tool.ts'
import { createFile, exclusively, look, Refused } from '../core/file-access.ts'
import type { OpenTools } from '../core/tool.ts'
import { type Command, Editor, notDone } from './editor.ts'

const headings = [
  '# Plan',
  '## Goal',
  '## What is there',
  '## Approach',
  '## Steps',
  '## How it is checked',
  '## Risks and open questions',
]

/** Views any file; changes the plan only. `plan_path` of the parameters is where the plan is, from the workspace's directory. */
export const openPlanningFileEditor: OpenTools = (context, params) => {
  const editor = new Editor(context)
  const { workspace } = context
  const given = typeof params.plan_path === 'string' ? params.plan_path : undefined
  return [
    ownTool({
      directory: import.meta.dirname,
      tool: 'PlanningFileEditorTool',
      action: 'PlanningFileEditorAction',
      observation: 'PlanningFileEditorObservation',
      resources: ({ path }) => [`file:${resolve(workspace.directory, path)}`],
      run: async (action, signal) => {
        await prepare(action, workspace, await planPath(workspace, given))
        return await editor.run(action, signal)
      },
      failed: notDone,
    }),
  ]
}

/** A plan at the top of the workspace goes before the one in its own folder. */
async function planPath(workspace: Workspace, given: string | undefined): Promise<string> {
  if (given !== undefined) return await workspace.resolve(given, 'write')
  const top = await workspace.resolve('PLAN.md', 'write')
  if (await look(top)) return top
  return await workspace.resolve(join('.agents_tmp', 'PLAN.md'), 'write')
}

/** Refuses changes of other files, and makes the plan with its headings when it is needed and not there. */
async function prepare({ command, path }: Command, workspace: Workspace, plan: string): Promise<void> {
  const isPlan = (await workspace.resolve(path, command === 'view' ? 'read' : 'write')) === plan
  if (!isPlan && command !== 'view')
    throw new Refused(`Only the plan may be changed, and it is ${plan}; every other file can be viewed.`)
  if (!isPlan) return
  await exclusively(plan, async () => {
    await mkdir(dirname(plan), { recursive: true })
    if (command !== 'create' && (await look(plan)) === undefined)
      await createFile(plan, Buffer.from(`${headings.join('\n\n')}\n`))
  })
}
