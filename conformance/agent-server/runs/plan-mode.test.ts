import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bashStep, type ConversationInfo, finishStep } from '../../support/agent-driver.ts'
import { openAgentFixture } from '../../support/agent-fixture.ts'

const { api, driver, directory } = await openAgentFixture()
const has = (file: string) => existsSync(join(directory, file))

test('plan mode: refused until it is accepted; a fork is in the mode of its event', async () => {
  const script = [bashStep('touch refused'), finishStep('The plan.'), bashStep('touch done'), finishStep()]
  const { id } = await driver.createScripted(script, { plan_mode: true })
  const planned = await driver.waitUntilIdle(id)
  expect(has('refused')).toBe(false)
  expect(await driver.getInfo(id)).toMatchObject({ plan_mode: true, execution_status: 'finished' })

  const accept = await api.sendJson('PATCH', `/api/conversations/${id}`, { plan_mode: false })
  expect(accept.status).toBe(200)
  expect(await driver.getInfo(id)).toMatchObject({ plan_mode: false, execution_status: 'idle' })
  await driver.post(id, 'run')
  await driver.waitUntilIdle(id)
  expect(has('done')).toBe(true)

  const fork = async (body: object) => (await driver.post(id, 'fork', body)).body as ConversationInfo
  expect(await fork({})).toMatchObject({ plan_mode: false })
  const early = await fork({ from_event_id: planned.at(-1)?.id })
  expect(early).toMatchObject({ plan_mode: true })
})

test('a fork at an event before plan mode began is not in it', async () => {
  const { id } = await driver.createScripted([finishStep('Hello.'), finishStep('The plan.')])
  const before = await driver.waitUntilIdle(id)
  const begin = await api.sendJson('PATCH', `/api/conversations/${id}`, { plan_mode: true })
  expect(begin.status).toBe(200)
  const fork = async (body: object) => (await driver.post(id, 'fork', body)).body as ConversationInfo
  expect(await fork({ from_event_id: before.at(-1)?.id })).toMatchObject({ plan_mode: false })
  expect(await fork({})).toMatchObject({ plan_mode: true })
})

test('an external agent has no plan mode of the server', async () => {
  const agent = { kind: 'ACPAgent', acp_command: ['true'], tools: [] }
  const { status, body } = await driver.tryCreate(agent, { plan_mode: true })
  expect(status).toBe(422)
  expect(JSON.stringify(body)).toContain('plan_mode')
})
