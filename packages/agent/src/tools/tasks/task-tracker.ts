import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseAction } from '@slipway/protocol'
import { ownTool } from '../core/define-tool.ts'
import { privateMode, Refused, readIfThere, replaceFile } from '../core/file-access.ts'
import type { OpenTools, ToolAction } from '../core/tool.ts'
import { truncate } from '../core/truncate.ts'

type Tasks = ToolAction<'TaskTrackerAction'>['task_list']

const marks = { todo: '[ ]', in_progress: '[>]', done: '[x]' } as const

/** Keeps the list of tasks of a conversation in TASKS.json below its directory. */
export const openTaskTracker: OpenTools = ({ directory }) => {
  const file = join(directory, 'TASKS.json')
  return [
    ownTool({
      directory: import.meta.dirname,
      tool: 'TaskTrackerTool',
      action: 'TaskTrackerAction',
      observation: 'TaskTrackerObservation',
      resources: () => ['task_tracker'],
      run: async ({ command, task_list: given }) => {
        if (command === 'plan') await write(file, directory, given)
        const task_list = command === 'plan' ? given : await read(file)
        const told = render(task_list, command)
        const { text } = await truncate(told, { directory, tool: 'task_tracker', maxChars: 50_000 })
        return { content: text, command, task_list }
      },
      failed: ({ command }) => ({ command, task_list: [] }),
    }),
  ]
}

async function write(file: string, directory: string, tasks: Tasks): Promise<void> {
  await mkdir(directory, { recursive: true })
  await replaceFile(file, Buffer.from(`${JSON.stringify(tasks, null, 2)}\n`), privateMode)
}

async function read(file: string): Promise<Tasks> {
  const content = await readIfThere(file)
  if (content === undefined) return []
  const parsed = parseAction('TaskTrackerAction', { task_list: json(content.bytes.toString()) })
  if ('error' in parsed)
    throw new Refused('The list of tasks that was kept cannot be read. Write it again with the command plan.')
  return parsed.action.task_list
}

function json(value: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    return null
  }
}

function render(tasks: Tasks, command: 'view' | 'plan'): string {
  if (tasks.length === 0)
    return command === 'plan' ? 'The list of tasks is empty now.' : 'There are no tasks yet.'
  const isDone = tasks.filter(({ status }) => status === 'done').length
  const lines = tasks.map(({ title, notes, status }, at) => {
    const note = notes.trim() === '' ? '' : `\n   ${notes.trim().replaceAll('\n', '\n   ')}`
    return `${at + 1}. ${marks[status]} ${title}${note}`
  })
  return [`${isDone} of ${tasks.length} tasks are done.`, ...lines].join('\n')
}
