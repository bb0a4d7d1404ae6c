import { setTimeout as sleep } from 'node:timers/promises'
import { Problem } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures } from '../testing/fixtures.ts'
import { statusUpdate, userMessage } from './event-drafts.ts'
import { ConversationWriter } from './writer.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

async function begin(): Promise<{
  readonly id: string
  readonly log: EventLog
  readonly writer: ConversationWriter
}> {
  const id = crypto.randomUUID()
  await fixtures.storage.conversations.create({ id })
  const { log } = fixtures.storage
  return { id, log, writer: await ConversationWriter.open(id, log) }
}

test('concurrent writes are decided one after another, each with the state that the previous one left', async () => {
  const { writer } = await begin()
  const seen: number[] = []
  await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      writer.write(async (state) => {
        await sleep(n % 3)
        seen.push(state.position)
        return { events: [userMessage('user', `${n}`)] }
      }),
    ),
  )
  expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => n))
  expect(writer.state.position).toBe(20)
})

test('two writers of one log decide again after a write of the other', async () => {
  const { id, log, writer } = await begin()
  const other = await ConversationWriter.open(id, log)
  // As long as there are fewer than thirty messages, one more.
  const fill = (one: ConversationWriter) =>
    one.write(({ position }) =>
      position < 30 ? { events: [userMessage('user', `${position}`)] } : undefined,
    )
  await Promise.all(Array.from({ length: 25 }, () => [fill(writer), fill(other)]).flat())
  const events = await log.read(id, 0, 100)
  const texts = events.map(({ bytes }) => JSON.parse(bytes.toString()).llm_message.content[0].text)
  expect(texts).toEqual(Array.from({ length: 30 }, (_, n) => `${n}`))
})

test('a decision that fails rejects its own call, and later writes continue', async () => {
  const { writer } = await begin()
  const failed = writer.write(() => {
    throw new Error('no')
  })
  const written = writer.write(() => ({ events: [userMessage('user', 'yes')] }))
  await expect(failed).rejects.toThrow('no')
  expect(await written).toHaveLength(1)
})

test('an empty decision writes nothing', async () => {
  const { writer } = await begin()
  expect(await writer.write(() => undefined)).toEqual([])
  expect(await writer.write(() => ({ events: [] }))).toEqual([])
  expect(writer.state.position).toBe(0)
})

test('the record changes in the same write as the events: the status, and further members', async () => {
  const { id, writer } = await begin()
  await writer.write(() => ({
    events: [statusUpdate('running'), statusUpdate('finished')],
    record: { stats: '{"a":1}' },
  }))
  expect((await fixtures.storage.conversations.get([id]))[0]).toMatchObject({
    status: 'finished',
    stats: '{"a":1}',
  })
  await writer.write(() => ({ events: [], record: { stats: '{"a":2}' } }))
  expect((await fixtures.storage.conversations.get([id]))[0]).toMatchObject({
    status: 'finished',
    stats: '{"a":2}',
    head: 2,
  })
})

test('a conflict that is no other writer is not tried for ever', async () => {
  const { id, log, writer } = await begin()
  await log.append(id, [{ ...userMessage('user', 'one'), id: 'same' }])
  await expect(
    writer.write(() => ({ events: [{ ...userMessage('user', 'two'), id: 'same' }] })),
  ).rejects.toMatchObject({ code: 'conflict' })
})

test('a patient write waits for an import to end, any other is rejected as busy', async () => {
  const { id, log } = await begin()
  let refusals = 3
  const held: EventLog = {
    append: async (...args) => {
      if (refusals-- > 0) throw new Problem('busy', 'An import is under way.')
      return await log.append(...args)
    },
    read: (...args) => log.read(...args),
    search: (...args) => log.search(...args),
    count: (...args) => log.count(...args),
    get: (...args) => log.get(...args),
    tail: (...args) => log.tail(...args),
  }
  const writer = await ConversationWriter.open(id, held)
  const decide = () => ({ events: [userMessage('user', 'hi')] })
  await expect(writer.write(decide)).rejects.toMatchObject({ code: 'busy' })
  expect(await writer.write(decide, { isPatient: true })).toHaveLength(1)
})

test('each draft is dressed with the event that it follows, also behind a fact that moves the leaf', async () => {
  const id = crypto.randomUUID()
  await fixtures.storage.conversations.create({ id })
  const follows: (string | undefined)[] = []
  const writer = await ConversationWriter.open(id, fixtures.storage.log, {
    format: (draft, leafId) => {
      follows.push(leafId)
      return draft
    },
  })
  const pause = (id: string) => ({ id, kind: 'PauseEvent', source: 'user' })
  const move = (value: string | null) => ({
    id: `to ${value}`,
    kind: 'ConversationStateUpdateEvent',
    source: 'environment',
    key: 'leaf_event_id',
    value,
  })
  await writer.write(() => ({
    events: [pause('a'), pause('b'), move('a'), pause('c'), move(null), pause('d')],
  }))
  await writer.write(() => ({ events: [pause('e')] }))
  expect(follows).toEqual([undefined, 'a', 'b', 'a', 'c', undefined, 'd'])
  expect(writer.state.leafId).toBe('e')
})
