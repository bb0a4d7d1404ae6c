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
import { toolDescription } from '../core/define-tool.ts'
import { outputLimits } from '../core/output-limits.ts'
import type { TaskResult } from '../core/task-executor.ts'
import { type ToolContext, type ToolFactory, textBlock } from '../core/tool.ts'
import { truncateOutput } from '../core/truncate.ts'

const noAgentsResult: TaskResult = {
  task_id: '',
  subagent: '',
  status: 'error',
  text: 'There are no other agents here. Do it yourself.',
}

/**
 * The tool that gives tasks to other agents (wire 4.4). Its kinds are not in the specification's closed
 * lists, so it is opened only by name. Tasks share no known resource, so they run at the same time.
 */
export const openTask: ToolFactory = async (context) => {
  await context.tasks?.load()
  return {
    name: 'task',
    // The kinds of this tool are open by design; the unions list the closed ones.
    definition: { ...taskTool, description: toolDescription('task') } as unknown as ToolDefinition,
    parameters: taskParameters(),
    parse: (args) => {
      const parsed = parseArguments(taskAction, 'TaskAction', args)
      return 'error' in parsed ? parsed : { action: parsed.action as unknown as Action }
    },
    resources: () => [],
    run: async (action, signal) => {
      const taskAction = action as unknown as TaskAction // parsed by `parse`
      const result = (await context.tasks?.run(taskAction, signal)) ?? noAgentsResult
      return (await createObservation(result, context)) as unknown as Observation
    },
  }
}

/** The agent's last message is the first block; how to resume the task is a second one. */
async function createObservation(
  { task_id, subagent, status, text: lastMessage }: TaskResult,
  { directory }: ToolContext,
): Promise<TaskObservation> {
  const { text } = await truncateOutput(lastMessage, { directory, tool: 'task', maxChars: outputLimits.task })
  const about = `[${task_id}, ${subagent}: ${status}. To continue with it, call task with resume ${task_id}.]`
  const content = [text, ...(task_id === '' ? [] : [about])].map(textBlock)
  return { content, is_error: status === 'error', task_id, subagent, status, kind: 'TaskObservation' }
}

/** Without `max_turns`, which later contracts lack; it is still accepted. */
function taskParameters(): Record<string, unknown> {
  const { properties, ...rest } = schemaParameters(taskAction)
  const { max_turns: _, ...visibleProperties } = { ...(properties as object) } as Record<string, unknown>
  return { ...rest, properties: visibleProperties }
}
