import type { EventDraft } from '@slipway/storage'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures } from '../testing/fixtures.ts'
import { branchSegments, leafPosition, readBranch, readLeafMoves } from './branch.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

async function logOf(events: readonly EventDraft[]): Promise<string> {
  const id = crypto.randomUUID()
  await fixtures.storage.conversations.create({ id })
  await fixtures.storage.log.append(id, events)
  return id
}

const note = (id: string): EventDraft => ({ id, kind: 'PauseEvent', source: 'user' })
const move = (id: string, value: unknown): EventDraft => ({
  id,
  kind: 'ConversationStateUpdateEvent',
  source: 'environment',
  key: 'leaf_event_id',
  value,
})

test('a log without moves is one stretch, and its leaf is its end', async () => {
  expect(branchSegments(7, [])).toEqual([{ after: 0, last: 7 }])
  expect(leafPosition(7, [])).toBe(7)
  expect(branchSegments(0, [])).toEqual([])
})

test('a branch is followed back over the moves, each at the position that it led to', () => {
  const moves = [
    { position: 4, target: 2 },
    { position: 7, target: 3 },
    { position: 9, target: 6 },
    { position: 11, target: 0 },
  ]
  expect(branchSegments(10, moves)).toEqual([
    { after: 0, last: 2 },
    { after: 4, last: 6 },
    { after: 9, last: 10 },
  ])
  expect(branchSegments(12, moves)).toEqual([{ after: 11, last: 12 }])
  expect([leafPosition(11, moves), leafPosition(12, moves)]).toEqual([0, 12])
})

test('moves are found in a log of any length, and those that lead nowhere are none', async () => {
  const id = await logOf([
    note('a'),
    move('m1', 'b'),
    note('b'),
    move('m2', 7),
    move('m3', 'm3'),
    move('m4', 'a'),
    move('m5', 'm4'),
    note('c'),
    move('m6', null),
  ])
  expect(await readLeafMoves(fixtures.storage.log, id)).toEqual([
    { position: 6, target: 1 },
    { position: 7, target: 1 },
    { position: 9, target: 0 },
  ])
  const branch = await readBranch(fixtures.storage.log, id)
  expect([branch.leafAt(9), branch.leafAt(8)]).toEqual([0, 8])
  await fixtures.storage.log.append(id, [note('d')])
  const later = await readBranch(fixtures.storage.log, id)
  expect([6, 7, 8, 9, 10].map((head) => later.leafAt(head))).toEqual([1, 1, 8, 0, 10])
  expect([9, 10].map((position) => later.has(position))).toEqual([false, true])
})

test('all moves of a log are found, however many', async () => {
  const id = await logOf([note('a')])
  for (let round = 0; round < 5; round++)
    await fixtures.storage.log.append(
      id,
      Array.from({ length: 60 }, (_, i) => move(`m${round}-${i}`, 'a')),
    )
  expect((await readLeafMoves(fixtures.storage.log, id)).map(({ position }) => position)).toEqual(
    Array.from({ length: 300 }, (_, i) => i + 2),
  )
})
