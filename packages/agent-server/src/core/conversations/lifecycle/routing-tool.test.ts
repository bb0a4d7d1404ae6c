import { startConversationRequest } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { buildStartSettings } from './start-request.ts'

const rule = { classifier_model: 'small', classes: [{ description: 'any', model: 'large' }] }
const name = 'ClassifyAndSwitchLLMTool'
const on = { enable_classify_and_switch_llm_tool: true }

function toolsOf(agent_settings: object) {
  const request = {
    agent_settings: { llm: { model: 'openai/x' }, tools: [], ...agent_settings },
    workspace: { working_dir: '/w' },
  }
  return buildStartSettings(startConversationRequest.parse(request)).settings.agent.tools
}

test('the tool that chooses a model is added where the settings switch it on, once', () => {
  const params = { active_meta_profile: 'a', meta_profile: rule }
  expect(toolsOf({ ...on, ...params })).toMatchObject([{ name, params }])
  expect(toolsOf({ ...on, active_meta_profile: 'a', tools: [{ name }, { name: 'grep' }] })).toMatchObject([
    { name: 'grep' },
    { name, params: { active_meta_profile: 'a', meta_profile: null } },
  ])
  const names = toolsOf({ ...on, ...params, tools: null }).map((tool) => tool.name)
  expect(names).toEqual(['terminal', 'file_editor', 'task_tracker', name])
})

test('it is not added without the switch or without a rule, and a rule that is none is refused', () => {
  expect(toolsOf({ active_meta_profile: 'a', meta_profile: rule })).toEqual([])
  expect(toolsOf({ ...on, active_meta_profile: null, meta_profile: null })).toEqual([])
  expect(() => toolsOf({ ...on, meta_profile: { classifier_model: 'small' } })).toThrow(
    expect.objectContaining({
      issues: [expect.objectContaining({ loc: ['body', 'agent_settings', 'meta_profile', 'classes'] })],
    }),
  )
})
