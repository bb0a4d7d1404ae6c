import { agentServerRoutes } from '@slipway/protocol'
import { beforeEach, expect, test, vi } from 'vitest'
import { Activity } from './activity.ts'

beforeEach(() => {
  vi.useFakeTimers()
  return () => vi.useRealTimers()
})

function countsAsActivity(routeName: string): boolean {
  const activity = new Activity()
  const start = activity.lastMs
  vi.advanceTimersByTime(1000)
  expect(activity.track(routeName, () => 'reply')).toBe('reply')
  return activity.lastMs > start
}

test('a GET never counts as activity', () => {
  for (const [name, { method }] of Object.entries(agentServerRoutes))
    if (method === 'GET') expect([name, countsAsActivity(name)]).toEqual([name, false])
})

test('changes count as activity; checks, listings and admissions by POST do not', () => {
  for (const name of ['createConversation', 'runConversation', 'saveProfile', 'deleteSecret', 'uploadFile'])
    expect([name, countsAsActivity(name)]).toEqual([name, true])
  for (const name of ['postInit', 'validateProfile', 'listSkills', 'prepareForSandboxPause'])
    expect([name, countsAsActivity(name)]).toEqual([name, false])
})

test('a command that is waited for counts at its start and at its end', async () => {
  const activity = new Activity()
  const { promise, resolve } = Promise.withResolvers<void>()
  vi.advanceTimersByTime(1000)
  const start = Date.now()
  const reply = activity.track('executeBashCommand', () => promise)
  expect(activity.lastMs).toBe(start)
  vi.advanceTimersByTime(5000)
  resolve()
  await reply
  expect(activity.lastMs).toBe(start + 5000)
})
