import { afterAll, beforeAll, expect, test } from 'vitest'
import { bashStep, finishStep } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'

let server: OwnAgentServer

beforeAll(async () => {
  server = await OwnAgentServer.open()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose]())

interface Limited {
  readonly limits?: Record<
    'run' | 'conversation',
    { readonly used: Record<string, number>; readonly limits: object }
  >
}

const usage = { prompt_tokens: 90, completion_tokens: 10 }
const steps = Array.from({ length: 20 }, (_, n) => ({ ...bashStep(`echo ${n}`), usage }))
const limitsOf = async (id: string) => ((await server.driver.getInfo(id)) as Limited).limits
const errorCodes = async (id: string) =>
  (await server.driver.getEvents(id)).flatMap((event) =>
    event.kind === 'ConversationErrorEvent' ? [(event as unknown as { code: string }).code] : [],
  )

test('limits are set, shown, reached and raised by REST', async () => {
  const request = { limits: { run: { cost: 5 }, conversation: { tokens: 300 } } }
  const { id } = await server.driver.createScripted([...steps.slice(0, 3), finishStep()], request)
  await server.driver.waitUntilIdle(id)
  expect(await errorCodes(id)).toEqual(['MaxTokensReached'])
  expect(await limitsOf(id)).toMatchObject({
    run: { used: { cost: 0, tokens: 300, steps: 3 }, limits: { cost: 5 } },
    conversation: { used: { tokens: 300 }, limits: { tokens: 300 } },
  })
  const limits = { conversation: { tokens: 1_000_000 } }
  const patch = await server.api.sendJson('PATCH', `/api/conversations/${id}`, { limits })
  expect(patch.status).toBe(200)
  await server.driver.post(id, 'run')
  await server.driver.waitUntilIdle(id)
  expect(await server.driver.getInfo(id)).toMatchObject({ execution_status: 'finished' })
  expect(await limitsOf(id)).toMatchObject({
    run: { limits: { cost: 5 } },
    conversation: { limits: { tokens: 1_000_000 } },
  })
  const bad = await server.api.sendJson('PATCH', `/api/conversations/${id}`, {
    limits: { run: { cost: -1 } },
  })
  expect(bad.status).toBe(422)
}, 60_000)

test('what a run has used survives a kill at any step: the same run continues', async () => {
  for (const killAt of [0, 4, 7]) {
    const script = steps.map((step, index) => (index === killAt ? { ...bashStep('sleep 60'), usage } : step))
    const { id } = await server.driver.createScripted(script, { limits: { run: { tokens: 1000 } } })
    await server.driver.waitForEvent(id, (event) => JSON.stringify(event).includes('sleep 60'))
    await server.stop('SIGKILL')
    await server.start()
    await server.driver.waitUntilIdle(id)
    expect(await errorCodes(id)).toEqual(['MaxTokensReached'])
    expect((await limitsOf(id))?.run.used).toMatchObject({ tokens: 1000, steps: 10 })
  }
}, 120_000)
