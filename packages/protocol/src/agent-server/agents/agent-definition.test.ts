import { expect, test } from 'vitest'
import { validationIssues } from '../../core/validation-issues.ts'
import { event } from '../../events/event.ts'
import { parseArguments, schemaParameters } from '../../tools/action-parameters.ts'
import { action, observation, toolDefinition } from '../../tools/registry.ts'
import { taskAction, taskTool } from '../../tools/task.ts'
import { startConversationRequest } from '../conversations/conversation.ts'
import { agentDefinition } from './agent-definition.ts'
import { listSubAgentsRequest } from './sub-agent-routes.ts'

const request = (...agent_definitions: readonly unknown[]) => ({
  agent: { llm: { model: 'm' } },
  workspace: { working_dir: '/w' },
  agent_definitions,
})
const issueLocations = (value: unknown) => {
  const result = startConversationRequest.safeParse(value)
  return result.success
    ? []
    : validationIssues(result.error, ['body'], value).map(({ loc, type }) => [...loc, type].join('.'))
}

test('a definition needs a name and nothing else; null is what was not given', () => {
  const nothing = { color: null, model: null, tools: null, hooks: null, mcp_config: null, metadata: null }
  expect(agentDefinition.parse({ name: 'a', ...nothing, unknown: 1 })).toEqual({
    name: 'a',
    description: '',
    model: 'inherit',
    tools: [],
    skills: [],
    system_prompt: '',
    when_to_use_examples: [],
    metadata: {},
  })
})

test.each([
  [{}, 'body.agent_definitions.0.name.missing'],
  [{ name: ' a' }, 'body.agent_definitions.0.name.string_pattern_mismatch'],
  [{ name: 'a', tools: [{}] }, 'body.agent_definitions.0.tools.0.string_type'],
  [{ name: 'a', level: 'elsewhere' }, 'body.agent_definitions.0.level.enum'],
  [{ name: 'a', permission_mode: 'x' }, 'body.agent_definitions.0.permission_mode.enum'],
  [
    { name: 'a', max_iteration_per_run: 0 },
    'body.agent_definitions.0.max_iteration_per_run.greater_than_equal',
  ],
  [{ name: 'a', max_budget_per_run: 0 }, 'body.agent_definitions.0.max_budget_per_run.greater_than'],
  [{ name: 'a', mcp_config: { s: {} } }, 'body.agent_definitions.0.mcp_config.s.value_error'],
  [{ name: 'a', hooks: { x: [] } }, 'body.agent_definitions.0.hooks.x.extra_forbidden'],
  [7, 'body.agent_definitions.0.model_type'],
])('a bad definition is refused with its place: %j', (definition, place) => {
  expect(issueLocations(request(definition))).toEqual([place])
})

test('definitions are accepted in the forms that clients send', () => {
  expect(issueLocations(request())).toEqual([])
  expect(issueLocations({ ...request(), agent_definitions: null })).toEqual([])
  expect(issueLocations(request({ name: 'Ünïcode agent 1', level: 'programmatic', mcp_config: {} }))).toEqual(
    [],
  )
})

test('what is listed is everything, unless somebody says otherwise', () => {
  const all = { load_user: true, load_project: true, load_builtin: true }
  expect(listSubAgentsRequest.parse({})).toEqual(all)
  expect(listSubAgentsRequest.parse({ load_user: null, project_dir: null })).toEqual(all)
  expect(listSubAgentsRequest.parse({ load_builtin: false })).toEqual({ ...all, load_builtin: false })
})

test('the closed lists of events, actions, observations and tools do not know of tasks', () => {
  const call = { prompt: 'x', kind: 'TaskAction' }
  expect(action.safeParse(call).success).toBe(false)
  expect(taskAction.safeParse(call).success).toBe(true)
  const result = { task_id: 't', subagent: 'a', status: 'completed', kind: 'TaskObservation' }
  expect(observation.safeParse(result).success).toBe(false)
  expect(toolDefinition.safeParse(taskTool).success).toBe(false)
  const whole = { tool_name: 'task', tool_call_id: 'c', action_id: 'a', kind: 'ObservationEvent' }
  expect(event.safeParse({ ...whole, observation: result }).success).toBe(false)
})

test('arguments of an action that is in no union are described and read like those of the others', () => {
  expect(schemaParameters(taskAction)).toMatchObject({
    type: 'object',
    required: ['prompt'],
    properties: { max_turns: { type: 'integer', minimum: 1 } },
  })
  expect(parseArguments(taskAction, 'TaskAction', { prompt: 'x', resume: null })).toEqual({
    action: { prompt: 'x', resume: null, subagent_type: 'general-purpose', kind: 'TaskAction' },
  })
  expect(parseArguments(taskAction, 'TaskAction', {})).toHaveProperty('error')
})
