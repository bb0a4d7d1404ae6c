import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Action,
  type Observation,
  parseArguments,
  schemaParameters,
  type TaskAction,
  type TaskObservation,
  type ToolDefinition,
  taskAction,
  taskTool,
} from '@slipway/protocol'
import type { TaskResult } from '../core/task-executor.ts'
import { type Tool, type ToolContext, type ToolFactory, textBlock } from '../core/tool.ts'
import { truncateOutput } from '../core/truncate.ts'

const maxChars = 50_000
const noAgentsResult: TaskResult = {
  task_id: '',
  subagent: '',
  status: 'error',
  text: 'There are no other agents here. Do it yourself.',
}

/**
 * The tool that gives tasks to other agents (wire 4.4). Its kinds lie outside of the specification's closed lists, so it is there
 * only for a creator who names it. Nothing that two tasks share is known, so they run beside each other.
 */
export const openTask: ToolFactory = async (context) => {
  await context.tasks?.load()
  const tool: Tool = {
    name: 'task',
    // The kinds of this tool are open by design; the unions name the closed ones.
    definition: { ...taskTool, description: taskDescription() } as unknown as ToolDefinition,
    parameters: taskParameters(),
    parse: (args) => {
      const parsed = parseArguments(taskAction, 'TaskAction', args)
      return 'error' in parsed ? parsed : { action: parsed.action as unknown as Action }
    },
    resources: () => [],
    run: async (action, signal) => {
      const taskAction = action as unknown as TaskAction // parsed above, when it was called
      const result = (await context.tasks?.run(taskAction, signal)) ?? noAgentsResult
      return (await createObservation(result, context)) as unknown as Observation
    },
  }
  return [tool]
}

/** The last message of the agent comes first and alone; what helps to go on with it is a block of its own. */
async function createObservation(
  { task_id, subagent, status, text: lastMessage }: TaskResult,
  { directory }: ToolContext,
): Promise<TaskObservation> {
  const { text: truncated } = await truncateOutput(lastMessage, { directory, tool: 'task', maxChars })
  const about = `[${task_id}, ${subagent}: ${status}. To go on with it, call task with resume ${task_id}.]`
  return {
    content: task_id === '' ? [textBlock(truncated)] : [textBlock(truncated), textBlock(about)],
    is_error: status === 'error',
    task_id,
    subagent,
    status,
    kind: 'TaskObservation',
  }
}

/** Without `max_turns`, which later contracts do not have: who gives it all the same is understood. */
function taskParameters(): Record<string, unknown> {
  const { properties, ...rest } = schemaParameters(taskAction)
  const { max_turns: _, ...visibleProperties } = { ...(properties as object) } as Record<string, unknown>
  return { ...rest, properties: visibleProperties }
}

let cachedDescription: string | undefined

function taskDescription(): string {
  cachedDescription ??= readFileSync(join(import.meta.dirname, 'task.md'), 'utf8').trim()
  return cachedDescription
}
