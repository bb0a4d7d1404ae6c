import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { llm, type Message } from '@slipway/protocol'
import { FakeClock } from '@slipway/shared/time/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from './open-model.ts'

/** Comes with each request, which is not answered on its own. */
let asked = Promise.withResolvers<ServerResponse>()
let url = ''
const server = createServer((_, response) => asked.resolve(response))

beforeAll(async () => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` // it listens on a port
})
afterAll(() => {
  server.closeAllConnections()
  return new Promise((done) => server.close(done))
})

const question: Message = {
  role: 'user',
  content: [{ type: 'text', text: 'Kiel?', cache_prompt: false }],
  thinking_blocks: [],
}
const hourMs = 3_600_000

function ask(settings: object) {
  asked = Promise.withResolvers()
  const clock = new FakeClock()
  const model = openModel(llm.parse({ model: 'ollama/m', base_url: url, ...settings }), { clock })
  const retries: unknown[] = []
  const request = { messages: [question], tools: [], onRetry: (retry: unknown) => retries.push(retry) }
  return { clock, retries, result: model.generate(request, new AbortController().signal) }
}

test('a server of this machine that reads a prompt for most of an hour answers, and is asked once', async () => {
  const { clock, retries, result } = ask({})
  const response = await asked.promise
  await clock.untilWaiting(hourMs)
  await clock.advance(hourMs - 1)
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const chunk = { id: 'c', choices: [{ index: 0, delta: { content: 'Wet.' }, finish_reason: 'stop' }] }
  response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`)
  expect(await result).toMatchObject({ kind: 'reply' })
  expect(retries).toEqual([])
})

test('after an hour of silence the run ends with what to do, since another request begins again', async () => {
  const { clock, retries, result } = ask({ num_retries: 5 })
  await asked.promise
  await clock.untilWaiting(hourMs)
  await clock.advance(hourMs)
  expect(await result).toMatchObject({
    code: 'LLMTimeoutError',
    detail: expect.stringMatching(/3600 s\. The server at 127\.0\.0\.1:\d+ may still read the prompt/),
  })
  expect(retries).toEqual([])
})

test.each([
  ['a limit that is set', { timeout: 60 }, 60_000],
  ['that of a hosted provider behind it', { model: 'groq/m', api_key: 'k' }, 300_000],
])('%s holds also on this machine', async (_, settings, ms) => {
  const { clock, result } = ask({ num_retries: 0, ...settings })
  await asked.promise
  await clock.untilWaiting(ms)
  await clock.advance(ms)
  expect(await result).toMatchObject({ code: 'LLMTimeoutError' })
})
