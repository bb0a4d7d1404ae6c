import { expect, test, vi } from 'vitest'
import { finishStep, toolCall, toolCallsStep } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import { timedServerEnv, turnsMs } from '../../support/turn-times.ts'

vi.setConfig({ testTimeout: 300_000 })
/** Of a turn of the event loop, in which no other request is answered. */
const maxTurnMs = 100

test('a server answers others between the steps of 200 runs and the parts of four exports', async () => {
  await using server = await OwnAgentServer.open({
    env: { ...timedServerEnv, SLIPWAY_MAX_CONCURRENT_RUNS: '1000' },
  })
  const lines = Array.from({ length: 20_000 }, (_, n) =>
    messageLine(`e${n}`, '2026-01-01T00:00:00Z', `Message ${n}. ${'and more '.repeat(40)}`),
  )
  const exported = await server.api.import(toJsonLines(...lines))
  await server.api.export(exported)
  await turnsMs(server)
  await Promise.all(Array.from({ length: 4 }, () => server.api.export(exported)))
  expect((await turnsMs(server))[0]).toBeLessThan(maxTurnMs)

  const step = { ...toolCallsStep(toolCall('think', { thought: 'some thought' })), delay_ms: 50 }
  const script = [...Array.from({ length: 8 }, () => step), finishStep()]
  const ids: string[] = []
  for (let n = 0; n < 200; n++) ids.push((await server.driver.createScripted(script)).id)
  await Promise.all(ids.map((id) => server.driver.waitUntilIdle(id)))
  const turns = await turnsMs(server)
  // All runs that begin or end together may share one.
  expect(turns[2]).toBeLessThan(maxTurnMs)
})
