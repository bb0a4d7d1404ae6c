import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { AgentServerApi } from '../support/agent-server-api.ts'
import { ServerGroup } from '../support/server-group.ts'
import type { Guarantee } from './guarantee.ts'
import { MessageLedger } from './message-ledger.ts'

const leaseSeconds = 2
const servers = 2
/** Before the owner is frozen. */
const messagesPerRound = 20
const patienceMs = 60_000
const pollMs = 20
const askMs = 2_000

/** Servers on one PostgreSQL database: one is frozen until another has its conversations. */
export const leases: Guarantee = {
  promise: 'A server that lost its lease acknowledges nothing that the owner does not have.',
  round:
    'freezes the owner of a conversation under load until another server has the conversation, and lets it continue',
  share: 0.05,
  roundSeconds: 4,
  whyUnavailable: () =>
    process.env.SLIPWAY_TEST_DATABASE_URL === undefined
      ? 'it needs PostgreSQL: .ci/postgres npm run contract -- leases'
      : undefined,
  async run(rounds) {
    await using group = await ServerGroup.open(servers, { leaseSeconds })
    const ledger = await MessageLedger.open(group.member(0).api)
    const over = new AbortController()
    const load = group.members.map(({ api, name }) =>
      ledger.write(api, { label: name, signal: over.signal, writers: 3 }),
    )
    try {
      for (let round = 0; round < rounds; round++) {
        const enough = ledger.acknowledged + messagesPerRound
        await until(async () => (ledger.acknowledged >= enough ? true : undefined), 'few messages')
        await sleep(Math.random() * 100)
        await exchangeOwner(group, ledger.conversations[round % ledger.conversations.length] ?? '')
      }
    } finally {
      over.abort()
    }
    await Promise.all(load)
    for (const { api } of group.members) await ledger.verify(api)
    expect(ledger.acknowledged).toBeGreaterThan(0)
    return { 'lost leases': rounds, acknowledged: ledger.acknowledged, refused: ledger.refused, lost: 0 }
  },
}

/** What the owner was doing when it was frozen continues after the end of its lease. */
async function exchangeOwner(group: ServerGroup, id: string): Promise<void> {
  const { member, epoch } = await until(() => group.leaseOf(id), 'no server has the conversation')
  const pid = member.process.pid ?? 0
  process.kill(pid, 'SIGSTOP')
  try {
    // A conversation without a run is taken over when it is asked for.
    const others = group.members.filter((one) => one !== member)
    await until(async () => {
      await Promise.all(others.map(({ api }) => ask(api, id)))
      const lease = await group.leaseOf(id)
      return lease !== undefined && lease.member !== member && lease.epoch > epoch ? lease : undefined
    }, 'no server took the conversation over')
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}

/** A server that waits for the frozen one answers when that has lost its lease. */
async function ask(api: AgentServerApi, id: string): Promise<void> {
  const signal = AbortSignal.timeout(askMs)
  const response = await api.fetch(`/api/conversations/${id}/checkpoints`, { signal }).catch(() => undefined)
  await response?.body?.cancel()
}

async function until<T>(find: () => Promise<T | undefined>, problem: string): Promise<T> {
  for (const endMs = performance.now() + patienceMs; ; await sleep(pollMs)) {
    const found = await find()
    if (found !== undefined) return found
    if (performance.now() > endMs) throw new Error(problem)
  }
}
