import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporary } from '../../testing/temporary-directory.ts'
import { openLedger } from './control-plane-store.ts'

const writer = fileURLToPath(new URL('./testing/crash-writer.ts', import.meta.url))
const rounds = Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 3)
/** Kills of one directory; then a new one begins, because what has to be read again grows with each. */
const roundsOfDirectory = 20

/** What was acknowledged before the writer was killed. */
class Said {
  readonly added = new Set<string>()
  readonly claimed = new Map<string, string>()
  readonly titles = new Map<string, string>()
  readonly removing = new Set<string>()
  readonly removed = new Set<string>()
  readonly counts = { used: 0, length: 0, waiting: 0 }

  note([word, first = '', second = '']: string[]): void {
    if (word === 'added') this.added.add(first)
    if (word === 'claimed') this.claim(first, second)
    if (word === 'titled') this.titles.set(first, second)
    if (word === 'removing') this.removing.add(first)
    if (word === 'removed') this.removed.add(first)
    if (word === 'used' || word === 'length' || word === 'waiting') this.counts[word] = Number(first)
  }

  claim(id: string, owner: string): void {
    expect(this.claimed.get(id)).toBeUndefined()
    this.claimed.set(id, owner)
  }
}

test(`nothing of the ledger that was acknowledged is lost when the process is killed, ${rounds} times`, {
  timeout: 60_000 + rounds * 5_000,
}, async () => {
  for (let left = rounds; left > 0; left -= roundsOfDirectory) await killed(Math.min(left, roundsOfDirectory))
})

async function killed(times: number): Promise<void> {
  using directory = temporary()
  const said = new Said()
  for (let round = 0; round < times; round++) {
    await killedWriter(directory.path, said)
    await check(directory.path, said)
  }
  const db = new DatabaseSync(join(directory.path, 'control.db'))
  expect(db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
  db.close()
}

/** Runs the writer, kills it at some moment after its first words, and notes what it had said. */
async function killedWriter(directory: string, said: Said): Promise<void> {
  const child = spawn(process.execPath, [writer, directory], { stdio: ['ignore', 'pipe', 'inherit'] })
  let isKilled = false
  for await (const line of createInterface(child.stdout)) {
    said.note(line.split(' '))
    if (isKilled) continue
    isKilled = true
    void pause(50 + Math.random() * 500).then(() => child.kill('SIGKILL'))
  }
  expect(isKilled).toBe(true)
}

async function check(directory: string, said: Said): Promise<void> {
  await using ledger = await openLedger({ directory })
  const sandboxes = new Map((await Array.fromAsync(ledger.sandboxes.all())).map((row) => [row.id, row]))
  for (const id of said.added) {
    if (said.removed.has(id)) expect(sandboxes.has(id)).toBe(false)
    else if (!said.removing.has(id)) expect(sandboxes.get(id)).toMatchObject({ id })
  }
  for (const [id, owner] of said.claimed) {
    const row = sandboxes.get(id)
    if (row !== undefined) expect(row.owner).toBe(owner)
  }
  for (const [id, title] of said.titles) {
    const [row] = await ledger.conversations.get([id])
    if (said.removed.has(id)) expect(row).toBeUndefined()
    else if (!said.removing.has(id)) expect([title, 'second']).toContain(row?.title)
  }
  const counts = {
    used: await ledger.quota.used('u', '2026-01-31'),
    length: (await ledger.documents.get('u', 'd'))?.length ?? 0,
    waiting: (await ledger.pendingMessages.of('t')).length,
  }
  // One of each may have been written and not acknowledged any more.
  for (const name of ['used', 'length', 'waiting'] as const) {
    expect(counts[name] - said.counts[name]).toBeGreaterThanOrEqual(0)
    expect(counts[name] - said.counts[name]).toBeLessThanOrEqual(1)
  }
  Object.assign(said.counts, counts)
}
