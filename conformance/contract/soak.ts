import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode } from '@slipway/shared/fs'
import { expect } from 'vitest'
import { bashStep, finishStep } from '../support/agent-driver.ts'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { type Guarantee, percentile } from './guarantee.ts'
import { MessageLedger } from './message-ledger.ts'

const roundSeconds = 6
const mib = 1024 ** 2
/**
 * What memory and the log may grow by from the second third of the rounds to the last, besides this share.
 */
const slackMib = 48
const share = 1.25
const maxWalMib = 64
const maxNewDescriptors = 40

/** After each round, when everything that it made is deleted. */
interface Sample {
  readonly rssMib: number
  /** NaN where only root may count them: the server is not dumpable. */
  readonly descriptors: number
  readonly walMib: number
  readonly logMib: number
}

/** Appends, streams, runs and deletions in one server, as long as wanted. */
export const soak: Guarantee = {
  promise:
    'Memory, descriptors, the write-ahead log and the log stay flat under a load that deletes what it makes.',
  round: `${roundSeconds} seconds of messages, followers and runs in new conversations, which are deleted`,
  share: 0.25,
  roundSeconds,
  whyUnavailable: () => (process.platform === 'linux' ? undefined : 'it reads /proc'),
  async run(rounds) {
    await using server = await OwnAgentServer.open()
    const samples: Sample[] = []
    const totals = { messages: 0, runs: 0, followers: 0 }
    for (let round = 0; round < rounds; round++) {
      const ledger = await MessageLedger.open(server.api, 4)
      const over = new AbortController()
      const end = setTimeout(() => over.abort(), roundSeconds * 1000)
      const [, runs, followers] = await Promise.all([
        ledger.write(server.api, { label: `round ${round}`, signal: over.signal, writers: 4, bytes: 500 }),
        runAgents(server, over.signal),
        follow(server, ledger.conversations, over.signal),
      ])
      clearTimeout(end)
      await ledger.verify(server.api)
      expect(ledger.refused).toBe(0)
      totals.messages += ledger.acknowledged
      totals.runs += runs
      totals.followers += followers
      for (const id of ledger.conversations) await remove(server, id)
      await sleep(500)
      samples.push(sample(server))
    }
    return { rounds, ...totals, ...verdict(samples) }
  },
}

/** Runs of two steps in their own conversations. Returns how many. */
async function runAgents(server: OwnAgentServer, signal: AbortSignal): Promise<number> {
  let runs = 0
  for (; !signal.aborted; runs++) {
    const { id } = await server.driver.createScripted([bashStep('echo soak'), finishStep()])
    await server.driver.waitUntilIdle(id)
    expect((await server.driver.getInfo(id)).execution_status).toBe('finished')
    await remove(server, id)
  }
  return runs
}

/** Followers that read for a moment and go away. Returns how many. */
async function follow(server: OwnAgentServer, ids: readonly string[], signal: AbortSignal): Promise<number> {
  let followers = 0
  for (; !signal.aborted; followers++) {
    const id = ids[followers % ids.length]
    const reading = AbortSignal.any([signal, AbortSignal.timeout(50 + Math.round(Math.random() * 500))])
    try {
      const response = await server.api.fetch(`/api/conversations/${id}/events/stream`, { signal: reading })
      expect(response.status).toBe(200)
      for await (const _ of response.body ?? []) if (reading.aborted) break
    } catch (error) {
      if (!reading.aborted) throw error
    }
  }
  return followers
}

async function remove(server: OwnAgentServer, id: string): Promise<void> {
  const response = await server.api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })
  expect(response.status).toBe(200)
}

function sample({ pid, data }: OwnAgentServer): Sample {
  const [, kib] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  const size = (name: string) => (statSync(join(data, name), { throwIfNoEntry: false })?.size ?? 0) / mib
  return {
    rssMib: Number(kib) / 1024,
    descriptors: countDescriptors(pid),
    walMib: size('log.db-wal'),
    logMib: size('log.db'),
  }
}

function countDescriptors(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch (error) {
    if (errorCode(error) === 'EACCES') return Number.NaN
    throw error
  }
}

/** Throws unless the last third of the samples is like the second. */
function verdict(samples: readonly Sample[]): Record<string, string> {
  const part = (from: number, to: number) => {
    const some = samples.slice(Math.floor((samples.length * from) / 3), Math.ceil((samples.length * to) / 3))
    const median = (read: (sample: Sample) => number) => Math.round(percentile(some.map(read), 0.5))
    return {
      rss: median(({ rssMib }) => rssMib),
      descriptors: median(({ descriptors }) => descriptors),
      wal: Math.round(Math.max(...some.map(({ walMib }) => walMib))),
      log: median(({ logMib }) => logMib),
    }
  }
  const thirds = [part(0, 1), part(1, 2), part(2, 3)] as const
  const [, middle, last] = thirds
  const figures = Object.fromEntries(
    (['rss', 'descriptors', 'wal', 'log'] as const).map((name) => [
      name,
      thirds.map((third) => third[name]).join(' -> '),
    ]),
  )
  expect(last.rss, `memory in MiB: ${figures.rss}`).toBeLessThan(middle.rss * share + slackMib)
  expect(last.log, `log.db in MiB: ${figures.log}`).toBeLessThan(middle.log * share + slackMib)
  const hasDescriptors = !Number.isNaN(last.descriptors)
  if (hasDescriptors)
    expect(last.descriptors, `descriptors: ${figures.descriptors}`).toBeLessThan(
      middle.descriptors + maxNewDescriptors,
    )
  expect(Math.max(...thirds.map(({ wal }) => wal)), `WAL in MiB: ${figures.wal}`).toBeLessThan(maxWalMib)
  const { rss = '', wal = '', log = '' } = figures
  const descriptors = (hasDescriptors && figures.descriptors) || 'not counted: only root may'
  return { 'memory MiB': rss, descriptors, 'WAL MiB': wal, 'log.db MiB': log }
}
