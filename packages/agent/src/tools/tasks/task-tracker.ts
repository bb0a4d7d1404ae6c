import { join } from 'node:path'
import { parseAction } from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import { makeDirectory } from '@slipway/shared/tool-files'
import { defineTool } from '../core/define-tool.ts'
import { privateFileMode, readFileIfExists, replaceFile } from '../core/file-access.ts'
import { outputLimits } from '../core/output-limits.ts'
import type { ToolAction, ToolFactory } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'
import { truncateOutput } from '../core/truncate.ts'

type TaskList = ToolAction<'TaskTrackerAction'>['task_list']

const statusMarks = { todo: '[ ]', in_progress: '[>]', done: '[x]' } as const

const emptyPlan = 'plan needs task_list with all tasks. The list stays as it is:'

/** Stores the task list of a conversation in TASKS.json in its directory. */
export const openTaskTracker: ToolFactory = ({ directory }) => {
  const file = join(directory, 'TASKS.json')
  return defineTool({
    kind: 'TaskTracker',
    resources: () => ['task_tracker'],
    run: async ({ command, task_list: newTasks }) => {
      const isPlan = command === 'plan' && newTasks.length > 0
      if (isPlan) await saveTasks(file, directory, newTasks)
      const task_list = isPlan ? newTasks : await loadTasks(file)
      // A call without a list is a mistake: finished work is marked as done.
      const isRefused = command === 'plan' && !isPlan && task_list.length > 0
      const rendered = `${isRefused ? `${emptyPlan}\n` : ''}${renderTasks(task_list, command)}`
      const { text } = await truncateOutput(rendered, {
        directory,
        tool: 'task_tracker',
        maxChars: outputLimits.task_tracker,
      })
      return { content: text, command, task_list, is_error: isRefused }
    },
    failureMembers: ({ command }) => ({ command, task_list: [] }),
  })
}

async function saveTasks(file: string, directory: string, tasks: TaskList): Promise<void> {
  await makeDirectory(directory, 0o700)
  await replaceFile(file, Buffer.from(`${JSON.stringify(tasks, null, 2)}\n`), privateFileMode)
}

async function loadTasks(file: string): Promise<TaskList> {
  const content = await readFileIfExists(file)
  if (content === undefined) return []
  const parsed = parseAction('TaskTrackerAction', { task_list: parseJson(content.bytes.toString()) ?? null })
  if ('error' in parsed)
    throw new ToolError('The stored task list cannot be read. Write it again with the command plan.')
  return parsed.action.task_list
}

function renderTasks(tasks: TaskList, command: 'view' | 'plan'): string {
  if (tasks.length === 0)
    return command === 'plan' ? 'The list of tasks is empty now.' : 'There are no tasks yet.'
  const doneCount = tasks.filter(({ status }) => status === 'done').length
  const lines = tasks.map(({ title, notes, status }, at) => {
    const note = notes.trim() === '' ? '' : `\n   ${notes.trim().replaceAll('\n', '\n   ')}`
    return `${at + 1}. ${statusMarks[status]} ${title}${note}`
  })
  return [`${doneCount} of ${tasks.length} tasks are done.`, ...lines].join('\n')
}
