import { startConversationRequest } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { buildStartSettings } from './start-request.ts'

function toolsOf(model: string, agent_settings: object): string[] {
  const request = { agent_settings: { llm: { model }, ...agent_settings }, workspace: { working_dir: '/w' } }
  return buildStartSettings(startConversationRequest.parse(request)).settings.agent.tools.map(
    ({ name }) => name,
  )
}

test('the tool that changes files follows the setting, and the family of the model only when asked to', () => {
  expect(toolsOf('openai/gpt-5.5', {})).toEqual(['terminal', 'file_editor', 'task_tracker'])
  expect(toolsOf('openai/gpt-5.5', { file_tool: null })[1]).toBe('file_editor')
  expect(toolsOf('openai/gpt-5.5', { file_tool: 'auto' })[1]).toBe('apply_patch')
  expect(toolsOf('anthropic/claude', { file_tool: 'auto' })[1]).toBe('file_editor')
  expect(toolsOf('anthropic/claude', { file_tool: 'apply_patch' })[1]).toBe('apply_patch')
  expect(toolsOf('openai/gpt-5.5', { file_tool: 'auto', tools: [{ name: 'grep' }] })).toEqual(['grep'])
  expect(() => toolsOf('openai/gpt-5.5', { file_tool: 'ed' })).toThrow()
})
