import { llm } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ModelDelta } from '../model.ts'
import { tools } from '../refusals/testing/refused-history.ts'
import { RefusingServer } from '../refusals/testing/refusing-server.ts'
import { openModel } from './open-model.ts'

let server: RefusingServer

beforeAll(async () => {
  server = await RefusingServer.open()
})
afterAll(() => server[Symbol.asyncDispose]())

async function ask(reply: string, more: object = {}) {
  server.reply = reply
  const deltas: ModelDelta[] = []
  const model = openModel(llm.parse({ model: 'openai-compatible/m', base_url: `${server.url}/v1`, ...more }))
  const content = [{ type: 'text' as const, text: 'Weather?', cache_prompt: false }]
  const messages = [{ role: 'user' as const, content, thinking_blocks: [] }]
  const request = { messages, tools, onDelta: (delta: ModelDelta) => deltas.push(delta) }
  const result = await model.generate(request, new AbortController().signal)
  if (result.kind !== 'reply') throw new Error(JSON.stringify(result))
  return { message: result.message, deltas }
}

test('a thought in the text of an answer is reasoning, also while it is streamed', async () => {
  const { message, deltas } = await ask('<think>Rain, or grey?</think>\n\nIt is grey.')
  expect(message.content).toMatchObject([{ text: 'It is grey.' }])
  expect(message.reasoning_content).toBe('Rain, or grey?')
  expect(deltas.map(({ content = '' }) => content).join('')).toBe('It is grey.')
})

test('a call inside of a thought is not executed where calls are texts', async () => {
  const call = '<function=grep>\n<parameter=pattern>x</parameter>\n</function>'
  const called = await ask(call, { native_tool_calling: false })
  expect(called.message.tool_calls).toHaveLength(1)
  const thought = await ask(`<think>Shall I ${call}?</think>No.`, { native_tool_calling: false })
  expect(thought.message.tool_calls).toBeUndefined()
  expect(thought.message.content).toMatchObject([{ text: 'No.' }])
})

test('a thought that the template opens and the text ends is reasoning, and its calls are not executed', async () => {
  const call = '<function=grep>\n<parameter=pattern>x</parameter>\n</function>'
  const { message } = await ask(`Rain, or ${call}?\n</think>\n\nIt is grey.`, { native_tool_calling: false })
  expect(message.content).toMatchObject([{ text: 'It is grey.' }])
  expect(message.reasoning_content).toBe(`Rain, or ${call}?`)
  expect(message.tool_calls).toBeUndefined()
  for (const text of ['The tag </think> ends it.', 'Code:\n```\n</think>\n```'])
    expect((await ask(text)).message).toMatchObject({ content: [{ text }] })
})
