import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { bashStep, finishStep } from '../support/agent-driver.ts'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { type Guarantee, percentile } from './guarantee.ts'

const roundSeconds = 60
const trySeconds = 5
const requestsPerSecond = 24
/** Caches fill in the first ones; what is held at rest is the lowest of the next `partRounds`. */
const coldRounds = 5
const partRounds = 10
/** Of the memory then: also what a request holds at the moment of a sample. */
const share = 1.05

/**
 * Minutes of the same requests, at a pace that leaves the server at rest between them; one alone is a try.
 */
export const steadyMemory: Guarantee = {
  promise:
    'Under a steady load the resident memory at rest stays within 5 % of that of the sixth to the fifteenth minute.',
  round: `a minute of ${requestsPerSecond} requests a second: messages, pages, lists, runs and deletions`,
  share: 0.06,
  roundSeconds,
  whyUnavailable: () => (process.platform === 'linux' ? undefined : 'it reads /proc'),
  async run(rounds) {
    await using server = await OwnAgentServer.open()
    const medians: number[] = []
    let requests = 0
    for (let round = 0; round < rounds; round++) {
      const samples: number[] = []
      const { id } = await server.driver.createScripted([bashStep('echo steady'), finishStep()])
      const start = performance.now()
      for (let second = 0; second < (rounds === 1 ? trySeconds : roundSeconds); second++) {
        await Promise.all(Array.from({ length: requestsPerSecond }, (_, n) => request(server, id, n)))
        requests += requestsPerSecond
        samples.push(rssMib(server))
        await sleep(Math.max(0, start + (second + 1) * 1000 - performance.now()))
      }
      expect((await server.api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(200)
      medians.push(Math.round(percentile(samples, 0.5)))
    }
    const figures = { rounds, requests, rss: medians.join(' -> ') }
    const warmed = rounds > coldRounds ? medians.slice(coldRounds) : medians
    const [warm, last] = [Math.min(...warmed.slice(0, partRounds)), Math.min(...medians.slice(-partRounds))]
    expect(last, `memory in MiB: ${figures.rss}`).toBeLessThanOrEqual(warm * share)
    return figures
  },
}

async function request({ api, driver }: OwnAgentServer, id: string, n: number): Promise<void> {
  const paths = [
    `/api/conversations/${id}/events/search?limit=100`,
    `/api/conversations/${id}/events/search?limit=20&kind=MessageEvent`,
    `/api/conversations/${id}/events/count`,
    `/api/conversations/search?limit=20`,
    `/api/conversations/${id}`,
  ]
  if (n % 6 === 0) {
    const text = 'Steady. '.repeat(60)
    const message = { content: [{ type: 'text', text }], run: false }
    expect((await driver.post(id, 'events', message)).status).toBe(200)
    return
  }
  const response = await api.fetch(paths[n % paths.length] ?? '')
  expect(response.status).toBe(200)
  await response.arrayBuffer()
}

function rssMib({ pid }: OwnAgentServer): number {
  const [, kib] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kib) / 1024
}
