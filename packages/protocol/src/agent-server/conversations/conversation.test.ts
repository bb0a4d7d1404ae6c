import fc from 'fast-check'
import { expect, test } from 'vitest'
import type * as z from 'zod'
import { must } from '../../core/assert.ts'
import { validationIssues } from '../../core/validation-issues.ts'
import { agentServerRoutes } from '../routes.ts'
import {
  askAgentRequest,
  confirmationResponseRequest,
  conversationId,
  conversationSearchQuery,
  forkConversationRequest,
  generateTitleRequest,
  importMeta,
  patchConversationRequest,
  sendMessageRequest,
  setConfirmationPolicyRequest,
  setSecurityAnalyzerRequest,
  startConversationRequest,
  switchLlmRequest,
  updateSecretsRequest,
} from './conversation.ts'

function parse(schema: z.ZodType, value: unknown) {
  const result = schema.safeParse(value)
  return result.success ? result.data : validationIssues(result.error, ['body'], value)
}

const workspace = { working_dir: '/w' }
const agent = { llm: { model: 'm' } }

test('an id is a UUID in any case, with or without dashes, and comes out in one spelling', () => {
  fc.assert(
    fc.property(fc.uuid(), (id) => {
      for (const text of [
        id,
        id.toUpperCase(),
        id.replaceAll('-', ''),
        id.replaceAll('-', '').toUpperCase(),
      ]) {
        expect(parse(conversationId, text)).toBe(id)
      }
    }),
  )
})

test.each([
  '',
  'x',
  '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c1',
  '5f0c2b1e9a774c0a-9d3b-0a8f6a1f0c11',
  '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c1g',
])('%j is no id', (text) => {
  expect(parse(conversationId, text)).toEqual([
    { loc: ['body'], msg: 'Input should be a valid UUID', type: 'uuid_parsing' },
  ])
})

test('a message has content, and no unknown member', () => {
  const parts = [{ type: 'text', text: 'hi', cache_prompt: false }]
  expect(parse(sendMessageRequest, { content: [{ type: 'text', text: 'hi' }] })).toMatchObject({
    role: 'user',
    content: parts,
    run: false,
  })
  expect(parse(sendMessageRequest, { content: parts, run: true })).toMatchObject({
    content: parts,
    run: true,
  })
  expect(parse(sendMessageRequest, { content: parts, extra: 1, sender: null })).toEqual({
    role: 'user',
    content: parts,
    run: false,
  })
})

const text = { type: 'text', text: 'hi' }
test.each([
  [{ role: 'assistant' }, ['role'], 'literal_error'],
  [{ content: [{ type: 'text' }] }, ['content', 0, 'text'], 'missing'],
  [{ content: 'hi' }, ['content'], 'list_type'],
  [{ content: 5 }, ['content'], 'list_type'],
  [{ content: [text], run: 'yes' }, ['run'], 'bool_type'],
  [{ content: [text], sender: 5 }, ['sender'], 'string_type'],
  [{ content: null }, ['content'], 'missing'],
  [{ extended_content: [{}] }, ['extended_content', 0, 'text'], 'missing'],
])('the message %j is refused', (value, loc, type) => {
  expect(parse(sendMessageRequest, value)).toMatchObject([{ loc: ['body', ...loc], type }])
})

test('a body that was not sent is missing', () => {
  const fault = [{ loc: ['body'], msg: 'Field required', type: 'missing' }]
  expect(parse(sendMessageRequest, undefined)).toEqual(fault)
  expect(parse(startConversationRequest, undefined)).toEqual(fault)
})

test('a conversation starts with an agent and a workspace', () => {
  expect(parse(startConversationRequest, { agent, workspace })).toEqual({
    agent: expect.objectContaining({ llm: expect.objectContaining({ model: 'm', usage_id: 'default' }) }),
    workspace,
    worktree: false,
    max_iterations: 500,
    stuck_detection: true,
    secrets_encrypted: false,
    autotitle: true,
  })
})

test('further members of clients are accepted or ignored', () => {
  const request = {
    agent: {
      kind: 'Agent',
      llm: { model: 'm', api_key: 'k', temperature: 0 },
      tools: [{ name: 'terminal' }],
    },
    workspace: { type: 'local', working_dir: '/w' },
    initial_message: { role: 'user', content: [{ type: 'text', text: 'hi' }] },
    hook_config: null,
    user_id: null,
    agent_settings: null,
    tool_module_qualnames: { terminal: 'x' },
    unheard_of: 1,
  }
  expect(parse(startConversationRequest, request)).toMatchObject({
    agent: request.agent,
    workspace: request.workspace,
    initial_message: { role: 'user', run: true },
  })
  expect(parse(startConversationRequest, request)).not.toHaveProperty('unheard_of')
})

test.each([
  [{ agent }, ['workspace'], 'missing'],
  [{ agent, workspace: {} }, ['workspace', 'working_dir'], 'missing'],
  [{ workspace }, [], 'value_error'],
  [{ workspace, agent, agent_settings: {} }, [], 'value_error'],
  [{ workspace, agent: { kind: 'Other', llm: { model: 'm' } } }, ['agent', 'kind'], 'union_tag_invalid'],
  [{ workspace, agent: { kind: 'ACPAgent' } }, ['agent', 'acp_command'], 'missing'],
  [{ workspace, agent: {} }, ['agent', 'llm'], 'missing'],
  [{ workspace, agent, conversation_id: 'x' }, ['conversation_id'], 'uuid_parsing'],
  [{ workspace, agent, max_iterations: 0 }, ['max_iterations'], 'greater_than_equal'],
  [{ workspace, agent, tags: { Team: 'x' } }, ['tags', 'Team'], 'string_pattern_mismatch'],
  [{ workspace, agent, tags: { team: 'x'.repeat(257) } }, ['tags', 'team'], 'string_too_long'],
])('the start request %j is refused', (value, loc, type) => {
  expect(parse(startConversationRequest, value)).toMatchObject([{ loc: ['body', ...loc], type }])
})

test('a title has 1 to 200 characters, counted as people count', () => {
  expect(parse(patchConversationRequest, { title: '🙂'.repeat(200) })).toEqual({ title: '🙂'.repeat(200) })
  expect(parse(patchConversationRequest, { title: '🙂'.repeat(201) })).toMatchObject([
    { type: 'string_too_long' },
  ])
  expect(parse(patchConversationRequest, { title: '' })).toMatchObject([{ type: 'string_too_short' }])
  expect(parse(patchConversationRequest, { title: null, tags: { a1: '' } })).toEqual({ tags: { a1: '' } })
})

test('the first line of an import names the conversation and nothing else', () => {
  const conversation_id = '5F0C2B1E9A774C0A9D3B0A8F6A1F0C11'
  expect(parse(importMeta, { conversation_id, tags: {} })).toEqual({
    conversation_id: '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c11',
    tags: {},
  })
  expect(parse(importMeta, {})).toEqual({})
  expect(parse(importMeta, { id: 'x' })).toMatchObject([{ loc: ['body', 'id'], type: 'extra_forbidden' }])
})

test('a search of conversations starts at the newest', () => {
  expect(parse(conversationSearchQuery, { status: '', page_id: '' })).toEqual({
    page_id: undefined,
    limit: 100,
    status: undefined,
    sort_order: 'CREATED_AT_DESC',
  })
  expect(parse(conversationSearchQuery, { status: 'asleep' })).toMatchObject([{ type: 'enum' }])
  expect(parse(conversationSearchQuery, { limit: '101' })).toMatchObject([{ type: 'less_than_equal' }])
})

test('what is not said of a request is what clients expect, and what else they send is passed over', () => {
  expect(parse(confirmationResponseRequest, { accept: false, x: 1 })).toEqual({
    accept: false,
    reason: 'User rejected the action',
  })
  expect(parse(forkConversationRequest, { id: null, title: '', x: 1 })).toEqual({ reset_metrics: true })
  expect(parse(generateTitleRequest, { llm: null, x: 1 })).toEqual({ max_length: 50 })
  expect(parse(setConfirmationPolicyRequest, { policy: { kind: 'ConfirmRisky', x: 1 } })).toEqual({
    policy: { kind: 'ConfirmRisky', threshold: 'HIGH', confirm_unknown: true },
  })
  expect(parse(setSecurityAnalyzerRequest, { security_analyzer: null })).toEqual({ security_analyzer: null })
})

test('a body of which nothing is required may be left out', () => {
  const { forkConversation, generateTitle, askAgent } = agentServerRoutes
  expect(parse(forkConversation.body, undefined)).toEqual({ reset_metrics: true })
  expect(parse(generateTitle.body, undefined)).toEqual({ max_length: 50 })
  expect(parse(askAgent.body, undefined)).toMatchObject([{ type: 'missing' }])
})

test('a fork takes the id that it is given, in any spelling', () => {
  const request = { id: '5F0C2B1E9A774C0A9D3B0A8F6A1F0C11', title: 'T', tags: { a: 'b' }, from_event_id: 'e' }
  expect(parse(forkConversationRequest, { ...request, reset_metrics: false })).toEqual({
    ...request,
    id: '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c11',
    reset_metrics: false,
  })
})

test('a secret comes as a text, as an object with its value, or as the address of one', () => {
  const secrets = { A: 'v', B: { value: 'v' }, C: { url: 'http://127.0.0.1/x' } }
  expect(parse(updateSecretsRequest, { secrets })).toEqual({
    secrets: {
      A: { kind: 'StaticSecret', value: 'v' },
      B: { kind: 'StaticSecret', value: 'v' },
      C: { kind: 'LookupSecret', url: 'http://127.0.0.1/x', headers: {} },
    },
  })
})

test.each([
  [confirmationResponseRequest, {}, ['accept'], 'missing'],
  [confirmationResponseRequest, { accept: 'yes' }, ['accept'], 'bool_type'],
  [confirmationResponseRequest, { accept: true, action_ids: [] }, ['action_ids'], 'too_short'],
  [setSecurityAnalyzerRequest, {}, ['security_analyzer'], 'missing'],
  [setConfirmationPolicyRequest, { policy: { kind: 'Sometimes' } }, ['policy', 'kind'], 'union_tag_invalid'],
  [updateSecretsRequest, {}, ['secrets'], 'missing'],
  [updateSecretsRequest, { secrets: ['a'] }, ['secrets'], 'dict_type'],
  [askAgentRequest, {}, ['question'], 'missing'],
  [forkConversationRequest, { id: 'x' }, ['id'], 'uuid_parsing'],
  [forkConversationRequest, { title: 'x'.repeat(201) }, ['title'], 'string_too_long'],
  [generateTitleRequest, { max_length: 0 }, ['max_length'], 'greater_than_equal'],
  [generateTitleRequest, { max_length: 201 }, ['max_length'], 'less_than_equal'],
  [switchLlmRequest, { llm: { model: '' } }, ['llm', 'model'], 'string_too_short'],
])('request %# is refused with the place of the fault', (schema, value, loc, type) => {
  expect(parse(schema, value)).toMatchObject([{ loc: ['body', ...loc], type }])
})

test('null is a member that was not given, in the request, its agent and its model', () => {
  const bare = { agent: { llm: { model: 'm' } }, workspace: { working_dir: '/w' } }
  const plain = startConversationRequest.parse(bare)
  const nulls = (value: object) => Object.fromEntries(Object.keys(value).map((name) => [name, null]))
  const { agent, workspace: _, ...rest } = plain
  const { llm, ...members } = must(agent, 'the agent')
  const given = {
    ...nulls(rest),
    agent: { ...nulls(members), llm: { ...nulls(llm), model: 'm' } },
    workspace: bare.workspace,
  }
  // For the time-out null has its own meaning: none.
  expect(startConversationRequest.parse(given)).toEqual({
    ...plain,
    agent: { ...agent, llm: { ...llm, timeout: null } },
  })
})
