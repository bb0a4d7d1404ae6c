import { llm, type Message } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ModelTool } from '../model.ts'
import { openModel } from '../models/open-model.ts'
import { type Refusal, refusalsOf } from '../testing/validators/rule.ts'
import { validators } from '../testing/validators/validators.ts'
import { LeftOutInMemory } from './left-out.ts'
import { anthropic, bedrock, google, openai } from './testing/refusal-answers.ts'
import { type Answer, RefusingServer } from './testing/refusing-server.ts'

/** A server that refuses what its provider does, in its words. */
let server: RefusingServer

beforeAll(async () => {
  server = await RefusingServer.open()
})
afterAll(() => server[Symbol.asyncDispose]())

const never = new AbortController().signal
const tools: readonly ModelTool[] = [
  { name: 'weather', description: 'd', parameters: { type: 'object', properties: {} } },
]
const text = (value: string) => ({ type: 'text' as const, text: value, cache_prompt: false })
const signature = 'bm90aGluZw=='

/** A turn whose signatures no provider made, as a damaged log has them. */
const turn: readonly Message[] = [
  { role: 'user', content: [text('Kiel?')], thinking_blocks: [] },
  {
    role: 'assistant',
    content: [text('I look.')],
    tool_calls: [{ id: 'call_1', name: 'weather', arguments: '{}', origin: 'completion' }],
    thinking_blocks: [
      { type: 'thinking', thinking: 'Hm.', signature },
      { type: 'thinking', thinking: 'Hm.', signature: `google:thought:${signature}` },
    ],
    responses_reasoning_item: { id: 'rs_1', summary: [], encrypted_content: signature },
  },
  { role: 'tool', tool_call_id: 'call_1', name: 'weather', content: [text('rain')], thinking_blocks: [] },
  { role: 'user', content: [text('And now?')], thinking_blocks: [] },
]

function answerOf(model: string, { message }: Refusal): Answer {
  if (model.startsWith('anthropic')) return anthropic(message)
  if (model.startsWith('gemini')) return google(message)
  return model.startsWith('bedrock') ? bedrock(message) : openai(message)
}

test.each(Object.entries(validators))(
  '%s: a request is sent without what its provider refuses, and the next message is answered at once',
  async (model, validator) => {
    const rules: string[] = []
    server.refuse = (body) => {
      const [refusal] = refusalsOf(validator, body)
      if (refusal === undefined) return undefined
      rules.push(refusal.rule)
      return answerOf(model, refusal)
    }
    const hasPath = /^(anthropic|gemini|bedrock)/.test(model)
    const settings = llm.parse({
      ...{ model, base_url: hasPath ? server.url : `${server.url}/v1`, api_key: 'sk-test', num_retries: 0 },
      ...(!hasPath && { litellm_extra_body: { unknown_parameter: 1 } }),
      ...(model === 'openai/gpt-5' && { api_mode: 'responses' }),
    })
    const leftOut = new LeftOutInMemory()
    const first = await openModel(settings, { leftOut }).generate({ messages: turn, tools }, never)
    expect(first).toMatchObject({ kind: 'reply' })
    expect(rules.length).toBeGreaterThan(0)
    // Another process, and one message more.
    rules.length = 0
    const messages: Message[] = [
      ...turn,
      { role: 'assistant', content: [text('It rains.')], thinking_blocks: [] },
      { role: 'user', content: [text('And then?')], thinking_blocks: [] },
    ]
    const next = await openModel(settings, { leftOut }).generate({ messages, tools }, never)
    expect(next).toMatchObject({ kind: 'reply' })
    expect(rules).toEqual([])
  },
)
