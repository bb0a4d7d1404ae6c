import { link, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { startAgentServer } from '../../support/agent-server.ts'
import type { Guarantee } from '../guarantee.ts'
import { MessageLedger } from '../message-ledger.ts'

/** Rounds with one directory; then a new one, because the time to verify grows with each round. */
const roundsPerDirectory = 12
const stores = ['log.db', 'log.db-wal', 'log.db-shm']

/** What is removed below the server, in turn. */
const removals: readonly ((name: string) => boolean)[] = [
  (name) => name === 'log.db',
  (name) => stores.includes(name),
  () => true,
]

/** Files and directories that are removed below a server under load. */
export const movedFiles: Guarantee = {
  promise:
    'While its files are removed, a server acknowledges nothing and is not ready; with them it has all that it acknowledged.',
  round:
    'removes `log.db`, the files of the log, all files or the directory under load, and brings them back to the running or a killed server',
  partRounds: roundsPerDirectory,
  async run(rounds) {
    const totals = { acknowledged: 0, refused: 0 }
    const ways = [...removals, undefined]
    for (let left = rounds; left > 0; left -= roundsPerDirectory) {
      await using server = await OwnAgentServer.open()
      const ledger = await MessageLedger.open(server.api)
      for (let round = 0; round < Math.min(left, roundsPerDirectory); round++) {
        const isKilled = Math.floor(round / ways.length) % 2 === 1
        await runRound(server, ledger, { way: ways[round % ways.length], isKilled, label: `round ${round}` })
      }
      await server.restart('SIGKILL')
      await ledger.verify(server.api)
      totals.acknowledged += ledger.acknowledged
      totals.refused += ledger.refused
    }
    return { removals: rounds, ...totals, 'acknowledged meanwhile': 0, lost: 0 }
  },
}

async function runRound(
  server: OwnAgentServer,
  ledger: MessageLedger,
  round: {
    readonly way: ((name: string) => boolean) | undefined
    readonly isKilled: boolean
    readonly label: string
  },
): Promise<void> {
  const { way, isKilled, label } = round
  const over = new AbortController()
  const load = ledger.write(server.api, { label, signal: over.signal })
  await sleep(Math.random() * 150)
  const bringBack = await remove(server.data, way)
  const refusedBefore = ledger.refused
  await expectRefusals(server, ledger, label)
  // Answers that were on their way have come.
  await waitFor(() => ledger.refused >= refusedBefore + 12)
  const { acknowledged } = ledger
  await sleep(100)
  expect(ledger.acknowledged, `${label}: acknowledged without its files`).toBe(acknowledged)
  if (!isKilled) {
    await bringBack()
    await waitFor(() => ledger.acknowledged > acknowledged + 10)
  }
  over.abort()
  if (isKilled) {
    await server.stop('SIGKILL')
    // Without any file it is a new directory.
    if (way?.('log.db') && !way('log.mark')) await expectRefusedStart(server.data)
    await bringBack()
    await load
    await server.start()
  }
  await load
  await ledger.verify(server.api)
}

/** Resolves with what brings it back. */
async function remove(data: string, way: ((name: string) => boolean) | undefined) {
  const aside = `${data}-aside`
  if (way === undefined) {
    await rename(data, aside)
    return async () => {
      await rm(data, { recursive: true, force: true })
      await rename(aside, data)
    }
  }
  await mkdir(aside)
  const entries = await readdir(data, { withFileTypes: true })
  const names = entries.flatMap((entry) => (entry.isFile() && way(entry.name) ? entry.name : []))
  for (const name of names) await link(join(data, name), join(aside, name))
  for (const name of names) await rm(join(data, name))
  return async () => {
    for (const name of names) await rename(join(aside, name), join(data, name))
    await rm(aside, { recursive: true })
  }
}

async function expectRefusals(server: OwnAgentServer, ledger: MessageLedger, label: string): Promise<void> {
  const [id] = ledger.conversations
  const content = [{ type: 'text', text: `${label} writer 9 message 0 ` }]
  const { status } = await server.api.sendJson('POST', `/api/conversations/${id}/events`, { content })
  expect(status).toBe(503)
  expect((await server.api.fetch('/ready')).status).toBe(503)
  expect((await server.api.fetch('/health')).status).toBe(200)
}

/** An empty log in the place of the removed one would hide that all is gone. */
async function expectRefusedStart(data: string): Promise<void> {
  await expect(startAgentServer(data)).rejects.toThrow(/log\.db is (?:missing|empty)/)
}

async function waitFor(check: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !check(); await sleep(20))
    if (Date.now() > deadline) throw new Error('the server did not continue within 60 s')
}
