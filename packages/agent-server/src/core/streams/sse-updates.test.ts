import type { TransientUpdate } from '@slipway/agent'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SseUpdates } from './sse-updates.ts'

/** A conversation that says what the test says, and one reader of it. */
function createUpdates() {
  const listeners = new Set<(hint: TransientUpdate, position: number) => void>()
  const state = { position: 0 }
  let notifications = 0
  const updates = new SseUpdates(
    () => notifications++,
    () => 1_770_000_000_000_000,
  )
  const source = {
    subscribe(listener: (hint: TransientUpdate, position: number) => void) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  updates.subscribe(source, { all: true })
  const publish = (hint: TransientUpdate) => {
    for (const listener of listeners) listener(hint, state.position)
  }
  const drain = (position: number) => [...updates.drain(position)].map((bytes) => read(bytes.toString()))
  return { updates, listeners, state, publish, drain, notificationCount: () => notifications }
}

function read(text: string): Record<string, unknown> {
  const [, data] = /^event: hint\ndata: (.+)\n\n$/.exec(text) ?? []
  return JSON.parse(data ?? 'null')
}

test('a piece is one event that is named hint, has no id and is whole JSON in one line', () => {
  const { publish, drain } = createUpdates()
  publish({ kind: 'delta', content: 'a\nb\r' })
  expect(drain(0)).toEqual([
    {
      id: expect.any(String),
      timestamp: '2026-02-02T02:40:00.000000Z',
      source: 'agent',
      content: 'a\nb\r',
      kind: 'StreamingDeltaEvent',
    },
  ])
  expect(drain(0)).toEqual([])
})

test('pending deltas of a slow reader are joined, and only the newest stats wait', () => {
  const { publish, drain, notificationCount } = createUpdates()
  publish({ kind: 'delta', reasoning_content: 'hm' })
  publish({ kind: 'stats', value: 1 })
  publish({ kind: 'delta', content: 'a ' })
  publish({ kind: 'stats', value: 2 })
  publish({ kind: 'delta', content: 'b' })
  publish({ kind: 'idle' })
  expect(notificationCount()).toBe(5)
  expect(drain(0)).toMatchObject([
    { content: 'a b', reasoning_content: 'hm' },
    { kind: 'ConversationStateUpdateEvent', source: 'environment', key: 'stats', value: 2 },
  ])
})

test('a reader is told to forget a broken stream, and is not sent what it need not forget', () => {
  const { publish, drain } = createUpdates()
  publish({ kind: 'delta', content: 'One tw' })
  expect(drain(0)).toMatchObject([{ content: 'One tw' }])
  publish({ kind: 'delta', content: 'o' })
  publish({ kind: 'reset' })
  publish({ kind: 'delta', content: 'Three.' })
  expect(drain(0)).toMatchObject([
    { kind: 'StreamingResetEvent', source: 'agent' },
    { kind: 'StreamingDeltaEvent', content: 'Three.' },
  ])
  publish({ kind: 'reset' })
  expect(drain(1)).toEqual([])
})

test('what waits for a reader that never reads stays small', () => {
  const { publish, drain } = createUpdates()
  for (let n = 0; n < 1000; n++) publish({ kind: 'delta', content: 'x'.repeat(1000) })
  expect(String(drain(0)[0]?.content).length).toBeLessThanOrEqual(64 * 1024)
})

test('nothing is heard any more once it is disposed', () => {
  const { updates, listeners } = createUpdates()
  expect(listeners.size).toBe(1)
  updates[Symbol.dispose]()
  expect(listeners.size).toBe(0)
})

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('publish' as const), text: fc.string({ minLength: 1 }) }),
  },
  { weight: 2, arbitrary: fc.constant({ do: 'append' as const }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('read' as const), events: fc.nat({ max: 3 }) }) },
)

test('a piece comes after the events before it and before the one it became, and a quick reader misses nothing', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.boolean(), (steps, isQuick) => {
      const { state, publish, drain } = createUpdates()
      const said: string[] = ['']
      const heard: string[] = ['']
      let position = 0
      const hear = () => {
        for (const { content } of drain(position)) heard[position] = `${heard[position] ?? ''}${content}`
      }
      for (const one of steps) {
        if (one.do === 'publish') {
          publish({ kind: 'delta', content: one.text })
          said[state.position] = `${said[state.position] ?? ''}${one.text}`
        }
        if (one.do === 'append') state.position++
        if (one.do === 'read' || isQuick) {
          hear()
          position = Math.min(state.position, position + (one.do === 'read' && !isQuick ? one.events : 1))
          hear()
        }
      }
      for (const [at, text] of heard.entries()) {
        // All of it, or what had been said when it was read.
        if (text !== undefined) expect(said[at] ?? '').toContain(text)
      }
      if (isQuick)
        expect(heard.map((text) => text ?? '')).toEqual(said.slice(0, heard.length).map((t) => t ?? ''))
    }),
  )
})
