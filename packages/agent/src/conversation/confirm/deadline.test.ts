import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, FakeModel, type TestConversation, waitUntil } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

async function conversationAwaitingConfirmation(
  deadline_seconds: number | undefined,
): Promise<TestConversation> {
  const player = new FakeModel([{ calls: [['terminal', { command: 'touch x' }]] }])
  const life = await fixtures.create({
    model: player.open,
    agent: { tools: [{ name: 'terminal' }] },
    request: { confirmation_policy: { kind: 'AlwaysConfirm', deadline_seconds } },
  })
  await life.sendAndWait('go')
  return life
}

const later = (seconds: number) => ({ deps: { now: () => (Date.now() + seconds * 1000) * 1000 } })

test('an action that is not confirmed in time is rejected with the reason, and the conversation is idle', async () => {
  const life = await conversationAwaitingConfirmation(0.2)
  await waitUntil(() => life.status === 'idle')
  expect(await life.eventsOfKind('UserRejectObservation')).toMatchObject([
    { rejection_source: 'hook', rejection_reason: 'The action was not confirmed within 0.2 seconds.' },
  ])
})

test('an answer in time ends the waiting', async () => {
  const life = await conversationAwaitingConfirmation(30)
  expect(life.status).toBe('waiting_for_confirmation')
  await life.conversation.resolveConfirmation({ accept: true, reason: '' })
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
  expect(await life.eventsOfKind('UserRejectObservation')).toEqual([])
})

test('the deadline also runs while the server is down', async () => {
  const life = await conversationAwaitingConfirmation(600)
  await life.reopen(later(590))
  expect(life.status).toBe('waiting_for_confirmation')
  await life.reopen(later(601))
  await waitUntil(() => life.status === 'idle')
  expect((await life.eventsOfKind('UserRejectObservation'))[0]?.rejection_reason).toContain('600 seconds')
})

test('a deadline of a new policy applies to waiting actions, from when they began to wait', async () => {
  const life = await conversationAwaitingConfirmation(undefined)
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: 0.01 })
  await waitUntil(() => life.status === 'idle')
  expect(await life.eventsOfKind('UserRejectObservation')).toHaveLength(1)
})

test('a policy without a deadline removes the deadline', async () => {
  const life = await conversationAwaitingConfirmation(2)
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: undefined })
  await sleep(2_200)
  expect(life.status).toBe('waiting_for_confirmation')
})

test('a deadline beyond the timer limit does not expire at once', async () => {
  const life = await conversationAwaitingConfirmation(10 ** 9)
  await sleep(50)
  expect(life.status).toBe('waiting_for_confirmation')
})

test('without a deadline it waits indefinitely', async () => {
  const life = await conversationAwaitingConfirmation(undefined)
  await life.reopen(later(10 ** 7))
  await sleep(50)
  expect(life.status).toBe('waiting_for_confirmation')
})
