import { Client } from '@slipway/client'
import { Secret } from '@slipway/shared/redaction'
import { expect, onTestFinished, test } from 'vitest'
import { FakeAgentServer } from '../backends/testing/fake-backend.ts'
import { type AgentLog, askCaughtUp } from './caught-up.ts'

async function openAgent() {
  const agent = await FakeAgentServer.open({ SLIPWAY_SESSION_API_KEY: 'k' })
  onTestFinished(() => agent.close())
  const client = new Client({ url: agent.url, sessionApiKey: new Secret('k') })
  const asked: AgentLog[] = []
  const ask = (missing?: string) => {
    const hasAll = async (log: AgentLog) => {
      asked.push(log)
      return log.conversation !== missing
    }
    return askCaughtUp(client, hasAll, AbortSignal.timeout(10_000))
  }
  return { agent, asked, ask }
}

test('the log of each conversation has to be here, and nothing may run', async () => {
  const { agent, asked, ask } = await openAgent()
  expect(await ask()).toBe(true)
  agent.logs.set('a', []).set('b', ['e1', 'e2'])
  expect(await ask()).toBe(true)
  expect(asked).toEqual([
    { conversation: 'a', count: 0, last: undefined },
    { conversation: 'b', count: 2, last: 'e2' },
  ])
  expect(await ask('b')).toBe(false)
  agent.running = 1
  expect(await ask()).toBe(false)
})

test('an agent server that fails, refuses or is away gives no answer', async () => {
  const { agent, ask } = await openAgent()
  agent.isFailing = true
  await expect(ask()).rejects.toThrow()
  agent.isFailing = false
  agent.setKeys(['another'])
  await expect(ask()).rejects.toThrow()
  agent.close()
  await expect(ask()).rejects.toThrow()
})
