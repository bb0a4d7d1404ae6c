import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Life, Player, Temporary, until } from '../testing/fixtures.ts'

let place: Temporary

beforeAll(async () => {
  place = await Temporary.open()
})
afterAll(() => place[Symbol.asyncDispose]())

async function waiting(deadline_seconds: number | undefined): Promise<Life> {
  const player = new Player([{ calls: [['terminal', { command: 'touch x' }]] }])
  const life = await place.begin({
    model: player.open,
    agent: { tools: [{ name: 'terminal' }] },
    request: { confirmation_policy: { kind: 'AlwaysConfirm', deadline_seconds } },
  })
  await life.say('go')
  return life
}

const later = (seconds: number) => ({ rim: { now: () => (Date.now() + seconds * 1000) * 1000 } })

test('what nobody confirms in time is rejected with the reason, and the conversation is idle', async () => {
  const life = await waiting(0.2)
  await until(() => life.status === 'idle')
  expect(await life.all('UserRejectObservation')).toMatchObject([
    { rejection_source: 'user', rejection_reason: 'Nobody confirmed the action within 0.2 seconds.' },
  ])
})

test('an answer in time ends the waiting', async () => {
  const life = await waiting(30)
  expect(life.status).toBe('waiting_for_confirmation')
  await life.conversation.respond({ accept: true, reason: '' })
  await life.conversation.settled()
  expect(life.status).toBe('finished')
  expect(await life.all('UserRejectObservation')).toEqual([])
})

test('the time goes on while the server is down', async () => {
  const life = await waiting(600)
  await life.reopen(later(590))
  expect(life.status).toBe('waiting_for_confirmation')
  await life.reopen(later(601))
  await until(() => life.status === 'idle')
  expect((await life.all('UserRejectObservation'))[0]?.rejection_reason).toContain('600 seconds')
})

test('a deadline that comes with a policy counts for what waits already, from when it began to wait', async () => {
  const life = await waiting(undefined)
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: 0.01 })
  await until(() => life.status === 'idle')
  expect(await life.all('UserRejectObservation')).toHaveLength(1)
})

test('a policy without a deadline takes the deadline away', async () => {
  const life = await waiting(2)
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: undefined })
  await sleep(2_200)
  expect(life.status).toBe('waiting_for_confirmation')
})

test('a deadline beyond what a timer can wait is no deadline of now', async () => {
  const life = await waiting(10 ** 9)
  await sleep(50)
  expect(life.status).toBe('waiting_for_confirmation')
})

test('without a deadline it waits for as long as it takes', async () => {
  const life = await waiting(undefined)
  await life.reopen(later(10 ** 7))
  await sleep(50)
  expect(life.status).toBe('waiting_for_confirmation')
})
