import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { validateLlm } from './validate-llm.ts'

test('a provider that takes the question and never answers is given up after the limit, which is no fault of the settings', async () => {
  let asked = 0
  const silent = createServer((socket) => {
    asked += 1
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
  expect(await validateLlm(model, signal, { limitMs: 300 })).toEqual({ valid: true, error: null })
  expect(asked).toBe(1)
  expect(await validateLlm(model, AbortSignal.abort())).toEqual({ valid: true, error: null })
  silent.close()
})
