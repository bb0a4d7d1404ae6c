import { join } from 'node:path'
import { chatRequest, type Llm, llm } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { openStorage } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openCreateDeps, openRegistry, partsOf, temporaryDirectory } from '../../testing/fixtures.ts'
import { Gateway } from './gateway.ts'
import { parseChatPrompt } from './prompt.ts'
import { readChatRequest } from './request.ts'

function request(more: object = {}) {
  return chatRequest.parse({ model: 'openhands_x', messages: [{ role: 'user', content: 'Hello.' }], ...more })
}

const never = new AbortController().signal

async function startTurn(gateway: Gateway, body = request(), id?: string, signal = never) {
  return await gateway.startTurn(readChatRequest(body), { conversationId: id, signal })
}

/** A gateway with one profile, whose model plays a script. */
async function openGateway(script: readonly unknown[], timeoutMs: number) {
  const stack = new AsyncDisposableStack()
  const place = stack.use(temporaryDirectory())
  const storage = stack.use(await openStorage({ directory: place.path }))
  const agents = stack.use(await openRegistry(storage, place.path, 60_000))
  const createDeps = await openCreateDeps(storage, agents, place.path)
  const model = llm.parse({ model: 'scripted/x', script })
  const models = {
    list: async () => [],
    get: async () => undefined,
    getActiveName: async () => undefined,
    hasKey: async () => true,
    applyConnection: async (one: Llm) => one,
    resolve: async (name: string) => (name === 'x' ? model : undefined),
  }
  const readConfirmation = async () => ({ confirmation_policy: undefined, security_analyzer: undefined })
  const directory = join(place.path, 'gateway')
  const gateway = new Gateway({
    createDeps: { ...createDeps, parts: partsOf({ models }) },
    readConfirmation,
    directory,
    removeConversation: async () => undefined,
    timeoutMs,
    clock: systemClock,
  })
  return { gateway, agents, storage, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

test('a run that takes too long is a timeout, continues, and until it rests the conversation is busy', async () => {
  await using at = await openGateway([{ text: 'At last.', delay_ms: 4_000 }, { text: 'Again.' }], 2_000)
  const { id, turn } = await startTurn(at.gateway)
  await expect(turn.complete()).rejects.toMatchObject({ code: 'timeout' })
  await expect(startTurn(at.gateway, request(), id)).rejects.toMatchObject({ code: 'conflict' })
  await (await at.agents.get(id)).waitUntilIdle()
  const next = await startTurn(at.gateway, request(), id)
  expect(await next.turn.complete()).toMatchObject({ text: 'Again.' })
  const messages = await at.storage.log.count(id, { kind: 'MessageEvent', source: 'agent' })
  expect(messages).toBe(2)
})

test('whoever waits is one at a time, and who has left is in nobody’s way', async () => {
  await using at = await openGateway(
    [{ text: 'One.' }, { text: 'Two.', delay_ms: 200 }, { text: 'Three.' }],
    30_000,
  )
  const first = await startTurn(at.gateway)
  expect(await first.turn.complete()).toMatchObject({ text: 'One.' })
  const leave = new AbortController()
  const second = await startTurn(at.gateway, request(), first.id, leave.signal)
  await expect(startTurn(at.gateway, request(), first.id)).rejects.toMatchObject({ code: 'conflict' })
  const answer = second.turn.complete()
  leave.abort(new Error('left'))
  await expect(answer).rejects.toThrow('left')
  await (await at.agents.get(first.id)).waitUntilIdle()
  const third = await startTurn(at.gateway, request(), first.id)
  expect(await third.turn.complete()).toMatchObject({ text: 'Three.' })
})

test.each([0, 1, 3, 99])(
  'the pieces of an answer are the answer, also when its stream breaks after %s',
  async (break_after) => {
    const text = 'Ein  langer\n\nText – mit Ümläuten. '
    await using at = await openGateway([{ text, delta_ms: 5, break_after }], 30_000)
    const { turn } = await startTurn(at.gateway)
    const pieces: string[] = []
    const all = turn.stream(10_000)
    for (;;) {
      const { done, value } = await all.next()
      if (typeof value === 'string') pieces.push(value)
      if (!done) continue
      expect(pieces.join('')).toBe((value as { text: string }).text)
      break
    }
    expect(pieces.length).toBeGreaterThan(1)
  },
)

test('a request that fails before it begins leaves the conversation free', async () => {
  await using at = await openGateway([{ text: 'One.' }, { text: 'Two.' }], 30_000)
  const { id, turn } = await startTurn(at.gateway)
  await turn.complete()
  const wrong = request({ model: 'openhands_y' })
  await expect(startTurn(at.gateway, wrong, id)).rejects.toMatchObject({ code: 'not_found' })
  const again = await startTurn(at.gateway, request(), id)
  expect(await again.turn.complete()).toMatchObject({ text: 'Two.' })
})

test('a prompt of any messages holds the last one whole, and refuses only what has none of a user', () => {
  const role = fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool')
  const part = fc.record({ type: fc.constant('text'), text: fc.string() })
  const content = fc.oneof(fc.string(), fc.array(part), fc.constant(null))
  fc.assert(
    fc.property(
      fc.array(fc.record({ role, content }), { maxLength: 6 }),
      fc.string({ minLength: 1 }),
      (before, text) => {
        const messages = [...before, { role: 'user', content: text }]
        const prompt = parseChatPrompt(request({ messages }))
        expect(prompt.message).toEqual([{ type: 'text', text, cache_prompt: false }])
        expect(prompt.messageWithHistory.at(-1)).toEqual(prompt.message[0])
      },
    ),
  )
})
