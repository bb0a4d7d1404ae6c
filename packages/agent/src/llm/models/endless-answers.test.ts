import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { openModel } from './open-model.ts'

const chunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { role: 'assistant', content } }] })}\n\n`

/** A model that sends the same bytes until its caller leaves; `sentBytes` after that. */
async function askEndless(status: number, type: string, piece: string) {
  let sentBytes = 0
  const closed = Promise.withResolvers<void>()
  let requests = 0
  const server = createServer((_request, response: ServerResponse) => {
    requests++
    response.writeHead(status, { 'content-type': type }).on('close', () => closed.resolve())
    const send = () => {
      let isOpen = true
      while (isOpen && !response.destroyed) {
        sentBytes += piece.length
        isOpen = response.write(piece)
      }
    }
    response.on('drain', send)
    send()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  try {
    const base_url = `http://127.0.0.1:${port}/v1`
    const settings = { model: 'openai/gpt-4o', base_url, api_key: 'key', num_retries: 2 }
    const model = openModel(llm.parse(settings))
    const result = await model.generate(
      {
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'Hi', cache_prompt: false }], thinking_blocks: [] },
        ],
        tools: [],
      },
      new AbortController().signal,
    )
    await closed.promise
    return { result, sentBytes, requests }
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test.for([
  ['text without an end', 200, 'text/event-stream', chunk('x'.repeat(1_000_000))],
  ['an event without an end', 200, 'text/event-stream', 'x'.repeat(1_000_000)],
  ['an error without an end', 400, 'application/json', ' '.repeat(1_000_000)],
] as const)('%s ends the request, which is not repeated', async ([, status, type, piece]) => {
  const { result, sentBytes, requests } = await askEndless(status, type, piece)
  expect(result).toMatchObject({ kind: 'failure', code: 'LLMBadRequestError' })
  expect(sentBytes).toBeLessThan(60_000_000)
  expect(requests).toBe(1)
})
