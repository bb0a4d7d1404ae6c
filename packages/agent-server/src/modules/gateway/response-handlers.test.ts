import { randomUUID } from 'node:crypto'
import { Problem } from '@slipway/protocol'
import { expect, test, vi } from 'vitest'
import { responseHandlers } from './response-handlers.ts'

test('a conversation that goes before its stream begins leaves no rejection and nothing unstored', async () => {
  const finish = vi.fn()
  const transientUpdates = { subscribe: () => () => undefined }
  const turn = {
    complete: async () => await Promise.reject(new Problem('not_found', 'Gone')),
    sent: Promise.resolve(),
    conversation: { id: randomUUID(), state: { position: 0 }, transientUpdates },
  }
  const started = { id: randomUUID(), event: randomUUID(), turn, finish }
  const deps = {
    gateway: { startTurn: async () => started },
    storage: { conversations: { get: async () => [] }, log: {} },
  }
  const { createResponse } = responseHandlers(deps as never)
  // An unhandled rejection fails the test run.
  const reply = await createResponse({ body: { model: 'm', input: 'x', stream: true } } as never)
  expect(reply).toMatchObject({ refusal: { code: 'not_found' } })
  expect(finish).toHaveBeenCalledOnce()
})
