import type { TaskAction } from '@slipway/protocol'
import { toolDefinition } from '@slipway/protocol'
import { beforeEach, expect, test } from 'vitest'
import type { TaskResult } from '../core/task-executor.ts'
import type { Tool } from '../core/tool.ts'
import { findTool, openTools } from '../registry.ts'
import { ToolFixtures } from '../testing/fixtures.ts'

let fixtures: ToolFixtures
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  return () => fixtures[Symbol.asyncDispose]()
})

/** The tool, with tasks that are remembered and come to what is said. */
async function openTaskTool(
  result: TaskResult,
): Promise<{ tool: Tool; requests: TaskAction[]; loads: () => number }> {
  const requests: TaskAction[] = []
  let loads = 0
  const tasks = {
    load: async () => void loads++,
    run: async (action: TaskAction) => {
      requests.push(action)
      return result
    },
  }
  const context = { ...fixtures.context, tasks }
  const tools = await openTools({ specs: [{ name: 'task_tool_set', params: {} }], defaults: [], context })
  const tool = tools.get('task')
  if (tool === undefined) throw new Error('it was opened')
  expect([...tools.keys()]).toEqual(['task'])
  return { tool, requests: requests, loads: () => loads }
}

const completedResult: TaskResult = {
  task_id: 'task_00000001',
  subagent: 'helper',
  status: 'completed',
  text: 'It is done.',
}

test('the tool is found by its registry names and by its class names', () => {
  const found = findTool('task_tool_set')
  expect(found).toBeDefined()
  for (const name of ['TaskToolSet', 'TaskTool', 'task']) expect(findTool(name)).toBe(found)
})

test('the parameters for a model: the prompt is required, and members that later contracts lack are hidden', async () => {
  const { tool, loads } = await openTaskTool(completedResult)
  expect(loads()).toBe(1)
  expect(tool.parameters).toMatchObject({
    type: 'object',
    required: ['prompt'],
    additionalProperties: false,
    properties: { subagent_type: { type: 'string', default: 'general-purpose' } },
  })
  expect(Object.keys(Object(tool.parameters.properties)).sort()).toEqual([
    'description',
    'prompt',
    'resume',
    'subagent_type',
  ])
  expect(tool.definition).toMatchObject({
    kind: 'TaskTool',
    title: 'task',
    action_type: 'TaskAction',
    observation_type: 'TaskObservation',
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  })
  expect(toolDefinition.safeParse(tool.definition).success).toBe(false)
})

test('arguments become an action with its defaults, or a sentence that says what is wrong', async () => {
  const { tool } = await openTaskTool(completedResult)
  expect(tool.parse({ prompt: 'x' })).toEqual({
    action: { prompt: 'x', subagent_type: 'general-purpose', kind: 'TaskAction' },
  })
  for (const args of [{}, { prompt: 7 }, { prompt: 'x', other: 1 }, { prompt: 'x', max_turns: 0 }])
    expect(tool.parse(args)).toHaveProperty('error', expect.stringContaining('do not fit'))
})

test('a result is the last message, then how to resume; a long one is truncated and saved', async () => {
  const { tool, requests } = await openTaskTool({ ...completedResult, text: 'y'.repeat(60_000) })
  const parsed = tool.parse({ prompt: 'x', max_turns: 3 })
  if ('error' in parsed) throw new Error(parsed.error)
  const observation = await tool.run(parsed.action, new AbortController().signal)
  expect(requests).toEqual([
    { prompt: 'x', max_turns: 3, subagent_type: 'general-purpose', kind: 'TaskAction' },
  ])
  const [first, second] = observation.content
  expect(first).toMatchObject({ type: 'text', text: expect.stringContaining('The whole output is in ') })
  expect(JSON.stringify(first).length).toBeLessThan(51_000)
  expect(second).toMatchObject({ text: expect.stringContaining('resume task_00000001') })
  expect(observation).toMatchObject({ is_error: false, status: 'completed' })
})

test('where there are no other agents a call is an error and nothing else', async () => {
  const tools = await openTools({
    specs: [{ name: 'TaskToolSet', params: {} }],
    defaults: [],
    context: fixtures.context,
  })
  const tool = tools.get('task')
  const parsed = tool?.parse({ prompt: 'x' })
  if (tool === undefined || parsed === undefined || 'error' in parsed) throw new Error('it parses')
  expect(await tool.run(parsed.action, new AbortController().signal)).toMatchObject({
    is_error: true,
    status: 'error',
    task_id: '',
    content: [{ type: 'text' }],
  })
})

test('tasks share nothing that is known, so they may run beside each other', async () => {
  const { tool } = await openTaskTool(completedResult)
  const parsed = tool.parse({ prompt: 'x' })
  if ('error' in parsed) throw new Error(parsed.error)
  expect(tool.resources(parsed.action)).toEqual([])
})
