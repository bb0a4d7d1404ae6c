import type { Conversation } from '@slipway/agent'
import { expect, test } from 'vitest'
import { closeResting } from './close-resting.ts'

function resting(isOccupied: () => Promise<boolean>): Conversation {
  return { isBusy: false, hasDeadline: false, transientUpdates: {}, isOccupied } as unknown as Conversation
}

test('a conversation that cannot tell whether it is occupied stays, and the next ones are closed', async () => {
  const isOccupied = [
    () => Promise.reject(new Error('unknown')),
    () => Promise.resolve(true),
    ...Array.from({ length: 32 }, () => () => Promise.resolve(false)),
  ]
  const loaded = new Map(
    isOccupied.map((occupied, at) => [`c${at}`, { conversation: resting(occupied), lastUsedAt: at }]),
  )
  const closed: string[] = []
  await closeResting(loaded, {
    now: 1_000_000,
    isInUse: () => false,
    close: async (id) => void closed.push(id),
  })
  expect(closed).toEqual(['c2', 'c3'])
})
