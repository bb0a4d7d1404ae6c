import { llm } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from '../models/open-model.ts'
import { tools } from '../refusals/testing/refused-history.ts'
import { RefusingServer } from '../refusals/testing/refusing-server.ts'

let server: RefusingServer

beforeAll(async () => {
  server = await RefusingServer.open()
})
afterAll(() => server[Symbol.asyncDispose]())

const json = '{"pattern": "x"}'

async function ask(reply: string) {
  server.reply = reply
  const model = openModel(llm.parse({ model: 'openai-compatible/m', base_url: `${server.url}/v1` }))
  const content = [{ type: 'text' as const, text: 'Search.', cache_prompt: false }]
  const messages = [{ role: 'user' as const, content, thinking_blocks: [] }]
  const result = await model.generate({ messages, tools }, new AbortController().signal)
  if (result.kind !== 'reply') throw new Error(JSON.stringify(result))
  return result
}

test.each([
  ['Hermes', `I search.\n<tool_call>\n{"name": "grep", "arguments": ${json}}\n</tool_call>`],
  ['Qwen', '<tool_call>\n<function=grep>\n<parameter=pattern>\nx\n</parameter>\n</function>\n</tool_call>'],
  [
    'DeepSeek V3',
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>grep\n\`\`\`json\n${json}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  [
    'DeepSeek V3.1',
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>grep<｜tool▁sep｜>${json}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  [
    'Kimi',
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.grep:0<|tool_call_argument_begin|>${json}<|tool_call_end|><|tool_calls_section_end|>`,
  ],
  ['GLM', '<tool_call>grep\n<arg_key>pattern</arg_key>\n<arg_value>x</arg_value>\n</tool_call>'],
  [
    'MiniMax',
    '<minimax:tool_call>\n<invoke name="grep">\n<parameter name="pattern">x</parameter>\n</invoke>\n</minimax:tool_call>',
  ],
  ['Mistral', `[TOOL_CALLS] [{"name": "grep", "arguments": ${json}}]`],
  ['Mistral, new', `[TOOL_CALLS]grep[ARGS]${json}`],
  [
    'harmony',
    `<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.grep <|constrain|>json<|message|>${json}<|call|>`,
  ],
  ['Llama', `<|python_tag|>{"name": "grep", "parameters": ${json}}`],
  ['Llama, a tag', `<function=grep>${json}</function>`],
])('a call in the form of %s is one, also where the server has its own calls', async (_, reply) => {
  const { message, stop } = await ask(reply)
  const calls = message.tool_calls ?? []
  expect(calls.map(({ name, arguments: args }) => [name, JSON.parse(args)])).toEqual([
    ['grep', { pattern: 'x' }],
  ])
  expect(stop).toBe('tool_calls')
  expect(JSON.stringify(message.content)).not.toMatch(/tool_?call|function|[｜|]/i)
})

test.each([
  [
    'in a block of code',
    `Write it so:\n\`\`\`\n<tool_call>{"name": "grep", "arguments": ${json}}</tool_call>\n\`\`\``,
  ],
  ['of an unknown tool', `<tool_call>{"name": "other", "arguments": ${json}}</tool_call>`],
])('a form %s is text', async (_, reply) => {
  const { message } = await ask(reply)
  expect(message.tool_calls).toBeUndefined()
  expect(message.content).toMatchObject([{ text: reply }])
})
