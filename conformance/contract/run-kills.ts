import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import {
  bashStep,
  findLogIssues,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../support/agent-driver.ts'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import type { Guarantee } from './guarantee.ts'
import { readStream } from './message-ledger.ts'

/** Kills with one set of conversations; then new ones, because the time to verify grows with each kill. */
const roundsPerDirectory = 25

/** SIGKILL while agents call tools. */
export const runKills: Guarantee = {
  promise: 'After a kill every tool call has exactly one result, and every run can continue to its end.',
  round: 'kills a server with four running agents at a random moment, starts it and verifies all logs',
  share: 0.125,
  partRounds: roundsPerDirectory,
  async run(rounds) {
    let calls = 0
    let interrupted = 0
    for (let left = rounds; left > 0; left -= roundsPerDirectory) {
      const counts = await killRuns(Math.min(left, roundsPerDirectory))
      calls += counts.calls
      interrupted += counts.interrupted
    }
    return { kills: rounds, 'tool calls': calls, interrupted, 'calls without or with several results': 0 }
  },
}

async function killRuns(rounds: number): Promise<{ calls: number; interrupted: number }> {
  // Runs stay as the kill left them, so that their logs can be compared.
  await using server = await OwnAgentServer.open({ env: { SLIPWAY_MAX_RUN_RECOVERIES: '0' } })
  const script = Array.from({ length: 150 * (rounds + 1) }, (_, n) => ({
    ...(n % 5 === 4
      ? toolCallsStep(
          toolCall('terminal', { command: `echo ${n}a` }),
          toolCall('think', { thought: `${n}b` }),
        )
      : bashStep(`echo ${n}`)),
    delay_ms: n % 3 === 0 ? 5 : 0,
  }))
  const more = { stuck_detection: false, initial_message: { content: [{ type: 'text', text: 'Begin.' }] } }
  const ids: string[] = []
  for (let n = 0; n < 4; n++) {
    const agent = { llm: scriptedModel(script), tool_concurrency_limit: n % 2 === 0 ? 1 : 3 }
    ids.push((await server.driver.create(agent, more)).id)
  }
  for (let round = 0; round < rounds; round++) {
    await sleep(Math.random() * 600)
    await server.restart('SIGKILL')
    for (const id of ids) await verify(server, id)
    for (const id of ids) await server.driver.post(id, 'run')
  }
  const counts = { calls: 0, interrupted: 0 }
  for (const id of ids) {
    await server.driver.post(id, 'interrupt')
    await server.driver.post(id, 'switch_llm', {
      llm: scriptedModel(Array.from({ length: 300 }, () => finishStep())),
    })
    await server.driver.post(id, 'run')
    const events = await server.driver.waitUntilIdle(id)
    expect(events.at(-1)).toMatchObject({ value: 'finished' })
    expect(findLogIssues(events)).toEqual([])
    counts.calls += events.filter(({ kind }) => kind === 'ActionEvent').length
    counts.interrupted += events.filter(({ error }) => /interrupted by a restart/.test(String(error))).length
  }
  return counts
}

async function verify({ api, driver }: OwnAgentServer, id: string): Promise<void> {
  const { positions } = await readStream(api, id)
  expect(positions).toEqual(positions.map((_, at) => at + 1))
  const events = await driver.getEvents(id)
  expect(events).toHaveLength(positions.length)
  expect(findLogIssues(events)).toEqual([])
  expect((await driver.getInfo(id)).execution_status).toBe('error')
  expect(events.at(-1)).toMatchObject({ kind: 'ConversationErrorEvent', code: 'RunCutByRestart' })
  expect(await api.count(id)).toBe(positions.length)
}
