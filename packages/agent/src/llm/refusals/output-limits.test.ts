import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from '../models/open-model.ts'
import { LeftOutInMemory } from './left-out.ts'
import { history, settingsOf, tools } from './testing/refused-history.ts'
import { type Answer, RefusingServer } from './testing/refusing-server.ts'

let server: RefusingServer

beforeAll(async () => {
  server = await RefusingServer.open()
})
afterAll(() => server[Symbol.asyncDispose]())

const never = new AbortController().signal
const refused = (message: string): Answer => [400, { error: { message, type: 'BadRequestError', code: 400 } }]

/** Words of servers for a prompt and a limit of the reply that are more than a window together. */
const wordings: Readonly<Record<string, (window: number, prompt: number, limit: number) => string>> = {
  vLLM: (window, prompt, limit) =>
    `'max_tokens' or 'max_completion_tokens' is too large: ${limit}. This model's maximum context length is ${window} tokens and your request has ${prompt} input tokens (${limit} > ${window} - ${prompt}).`,
  OpenRouter: (window, prompt, limit) =>
    `This endpoint's maximum context length is ${window} tokens. However, you requested about ${prompt + limit} tokens (${prompt - 100} of text input, 100 of tool input, ${limit} in the output). Please reduce the length of either one.`,
  TGI: (window, prompt, limit) =>
    `Input validation error: \`inputs\` tokens + \`max_new_tokens\` must be <= ${window}. Given: ${prompt} \`inputs\` tokens and ${limit} \`max_new_tokens\``,
  Anthropic: (window, prompt, limit) =>
    `input length and \`max_tokens\` exceed context limit: ${prompt} + ${limit} > ${window}, decrease input length or \`max_tokens\` and try again`,
}

const prompts = [
  { prompt: 200, limit: 8192, accepted: 4096 },
  { prompt: 200, limit: 100_000, accepted: 4096 },
  { prompt: 4000, limit: 100_000, accepted: 4096 },
  { prompt: 5000, limit: 4096, accepted: 2048 },
]
const cases = Object.keys(wordings).flatMap((name) => prompts.map((row) => ({ name, ...row })))

test.each(cases)('$name: the reply to $prompt of 8192 tokens may have $accepted, not $limit', async (row) => {
  const { name, prompt, limit, accepted } = row
  let last: unknown
  server.refuse = ({ max_tokens = 0 }) => {
    last = max_tokens
    const most = Number(max_tokens)
    return prompt + most > 8192 ? refused(wordings[name]?.(8192, prompt, most) ?? '') : undefined
  }
  const leftOut = new LeftOutInMemory()
  const settings = { ...settingsOf('compatible', server.url), max_output_tokens: limit }
  const request = { messages: history('compatible', new URL(server.url).host), tools }
  expect(await openModel(settings, { leftOut }).generate(request, never)).toMatchObject({ kind: 'reply' })
  expect(last).toBe(accepted)
})

test('a prompt that has most of the window is too long, whatever the limit', async () => {
  server.requests = []
  server.refuse = ({ max_tokens = 0 }) => refused(wordings.vLLM?.(8192, 7000, Number(max_tokens)) ?? '')
  const settings = { ...settingsOf('compatible', server.url), max_output_tokens: 100_000 }
  const request = { messages: history('compatible', new URL(server.url).host), tools }
  const result = await openModel(settings).generate(request, never)
  expect(result).toMatchObject({ kind: 'failure', code: 'LLMContextWindowExceedError' })
  expect(server.requests.map((body) => JSON.parse(body || '{}').max_tokens)).toEqual([100_000, 4096])
})
