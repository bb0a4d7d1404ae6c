import { expect, test, vi } from 'vitest'
import { finishStep, toolCall, toolCallsStep } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import { MockProvider } from '../../support/mock-provider.ts'
import { timedServerEnv, turnsMs } from '../../support/turn-times.ts'

vi.setConfig({ testTimeout: 300_000 })
/** Of a turn of the event loop, in which no other request is answered. */
const maxTurnMs = 100
/** The heads of answers that come together are read in one turn, whoever waits for them. */
const maxAnswersTurnMs = 200

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

test('a server answers others while 200 runs get their last reply in the same moment', async () => {
  await using provider = await MockProvider.open()
  await using server = await OwnAgentServer.open({
    env: { ...timedServerEnv, SLIPWAY_MAX_CONCURRENT_RUNS: '1000' },
  })
  const runs = 200
  const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  provider.replies = [
    async (response, request) => {
      if (provider.requests.length === runs) asked.resolve()
      await answered.promise
      const call = { name: 'finish', arguments: { message: 'Done.' } }
      provider.sendReply(response, request, { calls: [call] })
    },
  ]
  const ids: string[] = []
  for (let n = 0; n < runs; n++) {
    const message = { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } }
    ids.push((await server.driver.create({ llm: provider.llm('chat', { stream: false }) }, message)).id)
  }
  await asked.promise
  await turnsMs(server)
  answered.resolve()
  for (const id of ids) await server.driver.waitUntilIdle(id)
  expect((await turnsMs(server))[0]).toBeLessThan(maxAnswersTurnMs)
})
