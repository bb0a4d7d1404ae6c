import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { openControlPlaneStore } from './control-plane-store.ts'

const writer = fileURLToPath(new URL('./testing/crash-writer.ts', import.meta.url))
const rounds = Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 3)
/** Kills of one directory; then a new one begins, because what has to be read again grows with each. */
const roundsOfDirectory = 20

/** What was acknowledged before the writer was killed. */
class WriterOutput {
  readonly added = new Set<string>()
  readonly claimed = new Map<string, string>()
  readonly titles = new Map<string, string>()
  readonly removing = new Set<string>()
  readonly removed = new Set<string>()
  readonly counts = { used: 0, length: 0, waiting: 0 }

  recordLine([word, first = '', second = '']: string[]): void {
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

test(`acknowledged changes survive a killed process, ${rounds} times`, {
  timeout: 60_000 + rounds * 5_000,
}, async () => {
  for (let left = rounds; left > 0; left -= roundsOfDirectory)
    await killRepeatedly(Math.min(left, roundsOfDirectory))
})

async function killRepeatedly(times: number): Promise<void> {
  using directory = temporaryDirectory()
  const output = new WriterOutput()
  for (let round = 0; round < times; round++) {
    await runAndKill(directory.path, output)
    await check(directory.path, output)
  }
  const db = new DatabaseSync(join(directory.path, 'control.db'))
  expect(db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
  db.close()
}

/** Runs the writer, kills it at some moment after its first words, and notes what it had said. */
async function runAndKill(directory: string, output: WriterOutput): Promise<void> {
  const child = spawn(process.execPath, [writer, directory], { stdio: ['ignore', 'pipe', 'inherit'] })
  let isKilled = false
  for await (const line of createInterface(child.stdout)) {
    output.recordLine(line.split(' '))
    if (isKilled) continue
    isKilled = true
    void pause(50 + Math.random() * 500).then(() => child.kill('SIGKILL'))
  }
  expect(isKilled).toBe(true)
}

async function check(directory: string, output: WriterOutput): Promise<void> {
  await using store = await openControlPlaneStore({ directory })
  const sandboxes = new Map((await Array.fromAsync(store.sandboxes.iterateAll())).map((row) => [row.id, row]))
  for (const id of output.added) {
    if (output.removed.has(id)) expect(sandboxes.has(id)).toBe(false)
    else if (!output.removing.has(id)) expect(sandboxes.get(id)).toMatchObject({ id })
  }
  for (const [id, owner] of output.claimed) {
    const row = sandboxes.get(id)
    if (row !== undefined) expect(row.owner).toBe(owner)
  }
  for (const [id, title] of output.titles) {
    const [row] = await store.conversations.get([id])
    if (output.removed.has(id)) expect(row).toBeUndefined()
    else if (!output.removing.has(id)) expect([title, 'second']).toContain(row?.title)
  }
  const counts = {
    used: await store.quota.getUsed('u', '2026-01-31'),
    length: (await store.documents.get('u', 'd'))?.length ?? 0,
    waiting: (await store.pendingMessages.list('t')).length,
  }
  // One of each may have been written and not acknowledged any more.
  for (const name of ['used', 'length', 'waiting'] as const) {
    expect(counts[name] - output.counts[name]).toBeGreaterThanOrEqual(0)
    expect(counts[name] - output.counts[name]).toBeLessThanOrEqual(1)
  }
  Object.assign(output.counts, counts)
}
