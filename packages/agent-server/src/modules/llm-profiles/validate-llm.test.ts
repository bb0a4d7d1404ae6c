import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { validateLlm } from './validate-llm.ts'

test('a provider that never answers is abandoned at the limit, and the settings count as valid with a reason', async () => {
  let requests = 0
  const silent = createServer((socket) => {
    requests += 1
    socket.on('error', () => {})
  }).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const model = llm.parse({
    model: 'openai-compatible/m',
    base_url: `http://127.0.0.1:${port}/v1`,
    timeout: null,
    num_retries: 9,
  })
  const { signal } = new AbortController()
  expect(await validateLlm(model, signal, { limitMs: 2_000 })).toEqual({
    valid: true,
    error: { type: 'LLMTimeoutError', message: 'The model did not answer within 2 seconds.' },
  })
  expect(requests).toBe(1)
  expect(await validateLlm(model, AbortSignal.abort())).toEqual({ valid: true, error: null })
  silent.close()
})
