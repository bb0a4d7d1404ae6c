import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { llm } from '@slipway/protocol'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openModel } from './open-model.ts'

let answers: Readonly<Record<string, unknown>> = {}
let asked: string[] = []
let sent: Record<string, unknown>[] = []
let url = ''
const server = createServer(async (request, response) => {
  const { url: path = '' } = request
  asked.push(path)
  const body = await text(request)
  if (path.endsWith('completions')) sent.push(JSON.parse(body))
  const answer = answers[path]
  response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(answer ?? { error: 'not found' }))
})

beforeAll(async () => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` // it listens on a port
})
beforeEach(() => {
  asked = []
  sent = []
})
afterAll(() => new Promise((done) => server.close(done)))

const list = (more: object = {}) => ({ data: [{ id: 'other' }, { id: 'm', object: 'model', ...more }] })

test.each<[string, string, Record<string, unknown>, number | undefined]>([
  ['vLLM', 'vllm/m', { '/v1/models': list({ max_model_len: 32_768 }) }, 32_768],
  ['llama.cpp', 'openai/m', { '/v1/models': list({ meta: { n_ctx: 8192, n_ctx_train: 131_072 } }) }, 8192],
  [
    'llama.cpp by its properties',
    'openai-compatible/m',
    { '/v1/models': list(), '/props': { default_generation_settings: { n_ctx: 4096 } } },
    4096,
  ],
  [
    'Ollama with a loaded model',
    'ollama/m',
    { '/v1/models': list(), '/api/ps': { models: [{ name: 'm:latest', context_length: 4096 }] } },
    4096,
  ],
  [
    'Ollama with a model that is not loaded',
    'ollama/m',
    {
      ...{ '/v1/models': list(), '/api/ps': { models: [] } },
      '/api/show': {
        parameters: 'num_ctx   16384\nstop "x"',
        model_info: { 'qwen3.context_length': 40_960 },
      },
    },
    16_384,
  ],
  [
    'LM Studio',
    'lm_studio/m',
    {
      '/v1/models': list(),
      '/api/v0/models': list({ loaded_context_length: 8000, max_context_length: 131_072 }),
    },
    8000,
  ],
  ['a server that does not tell', 'openai-compatible/m', { '/v1/models': list() }, undefined],
])('%s tells its window, once', async (_, model, told, window) => {
  answers = told
  const opened = openModel(llm.parse({ model, base_url: url, api_key: 'k' }))
  await opened.prepare?.()
  expect(opened.contextWindow).toBe(window)
  const count = asked.length
  await opened.prepare?.()
  expect(asked).toHaveLength(count)
})

test('hosted providers are not asked, and the settings go before what a server tells', async () => {
  answers = { '/v1/models': list({ max_model_len: 1000 }) }
  const settings = { base_url: url, api_key: 'k' }
  await openModel(llm.parse({ ...settings, model: 'groq/m' })).prepare?.()
  expect(asked).toEqual([])
  const set = openModel(llm.parse({ ...settings, model: 'openai-compatible/m', max_input_tokens: 9000 }))
  await set.prepare?.()
  expect(set.contextWindow).toBe(9000)
  expect(asked).toEqual(['/v1/models'])
})

test.each([
  ['no tools', { supports_tools: false }, {}, 'texts'],
  ['no tools, and a window is set', { supports_tools: false }, { max_input_tokens: 4096 }, 'texts'],
  ['tools', { supports_tools: true }, {}, 'tools'],
])('a chat template of llama.cpp with %s: they are sent as %s', async (_, chat_template_caps, more, form) => {
  const props = { chat_template_caps, default_generation_settings: { n_ctx: 4096 } }
  answers = { '/v1/models': list({ owned_by: 'llamacpp', meta: { n_ctx: 4096 } }), '/props': props }
  const model = openModel(llm.parse({ model: 'openai-compatible/m', base_url: url, ...more }))
  await model.prepare?.()
  expect(model.dropsTools).toBe(form === 'texts')
  const content = [{ type: 'text' as const, text: 'Weather?', cache_prompt: false }]
  const messages = [{ role: 'user' as const, content, thinking_blocks: [] }]
  const tools = [{ name: 'weather', description: 'Weather of a town', parameters: { type: 'object' } }]
  await model.generate({ messages, tools, maxOutputTokens: 9 }, new AbortController().signal)
  expect(sent[0]?.tools === undefined).toBe(form === 'texts')
  expect(JSON.stringify(sent[0]?.messages).includes('Weather of a town')).toBe(form === 'texts')
})
