import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { llm } from '@slipway/protocol'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openModel } from './open-model.ts'

let answers: Readonly<Record<string, unknown>> = {}
let asked: string[] = []
let url = ''
const server = createServer(({ url: path = '' }, response) => {
  asked.push(path)
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

test('hosted providers are not asked, nor where the settings say it', async () => {
  answers = { '/v1/models': list({ max_model_len: 1000 }) }
  const settings = { base_url: url, api_key: 'k' }
  for (const more of [{ model: 'groq/m' }, { model: 'openai-compatible/m', max_input_tokens: 9000 }])
    await openModel(llm.parse({ ...settings, ...more })).prepare?.()
  expect(asked).toEqual([])
})
