import { FakeClock } from '@slipway/shared/time/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, FakeModel, type TestConversation, waitUntil } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

async function conversationAwaitingConfirmation(
  deadline_seconds: number | undefined,
  clock = new FakeClock(),
): Promise<TestConversation> {
  const player = new FakeModel([{ calls: [['terminal', { command: 'touch x' }]] }])
  const life = await fixtures.create({
    model: player.open,
    deps: { clock },
    agent: { tools: [{ name: 'terminal' }] },
    request: { confirmation_policy: { kind: 'AlwaysConfirm', deadline_seconds } },
  })
  await life.sendAndWait('go')
  return life
}

/** A clock that starts some time after the events, which are of now. */
const clockLater = (seconds: number) => new FakeClock(Date.now() + seconds * 1000)

test('an action that is not confirmed in time is rejected with the reason, and the conversation is idle', async () => {
  const clock = new FakeClock()
  const life = await conversationAwaitingConfirmation(90, clock)
  await clock.advance(89_000)
  expect(life.status).toBe('waiting_for_confirmation')
  await clock.advance(1_000)
  await waitUntil(() => life.status === 'idle')
  expect(await life.eventsOfKind('UserRejectObservation')).toMatchObject([
    { rejection_source: 'user', rejection_reason: 'The action was not confirmed within 90 seconds.' },
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
  const early = clockLater(590)
  await life.reopen({ deps: { clock: early } })
  await early.advance(0)
  expect(life.status).toBe('waiting_for_confirmation')
  const late = clockLater(601)
  await life.reopen({ deps: { clock: late } })
  await late.advance(0)
  await waitUntil(() => life.status === 'idle')
  expect((await life.eventsOfKind('UserRejectObservation'))[0]?.rejection_reason).toContain('600 seconds')
})

test('a deadline of a new policy applies to waiting actions, from when they began to wait', async () => {
  const clock = clockLater(30)
  const life = await conversationAwaitingConfirmation(undefined, clock)
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: 20 })
  await clock.advance(0)
  await waitUntil(() => life.status === 'idle')
  expect(await life.eventsOfKind('UserRejectObservation')).toHaveLength(1)
})

test('a policy without a deadline removes the deadline', async () => {
  const clock = new FakeClock()
  const life = await conversationAwaitingConfirmation(2, clock)
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: undefined })
  await clock.advance(60_000)
  expect(life.status).toBe('waiting_for_confirmation')
})

test('a deadline beyond the timer limit does not expire at once', async () => {
  const clock = new FakeClock()
  const life = await conversationAwaitingConfirmation(10 ** 9, clock)
  await clock.advance(10 ** 11)
  expect(life.status).toBe('waiting_for_confirmation')
})

test('without a deadline it waits indefinitely', async () => {
  const life = await conversationAwaitingConfirmation(undefined)
  const clock = new FakeClock()
  await life.reopen({ deps: { clock } })
  await clock.advance(10 ** 10)
  expect(life.status).toBe('waiting_for_confirmation')
})
