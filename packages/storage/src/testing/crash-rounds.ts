import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Storage } from '../conversations/storage.ts'

/** The program that writes until it is killed. */
export const crashWriter = fileURLToPath(new URL('./crash-writer.ts', import.meta.url))

/** What writers have acknowledged. */
export interface WriterOutput {
  /** By conversation: id at each position that was acknowledged. */
  readonly stored: Map<string, Map<number, string>>
  readonly importing: Map<string, number>
  readonly published: Set<string>
  readonly removing: Set<string>
  readonly removed: Set<string>
  /** By conversation: the receiver's position. */
  readonly delivered: Map<string, number>
}

export function newOutput(): WriterOutput {
  return {
    stored: new Map(),
    importing: new Map(),
    published: new Set(),
    removing: new Set(),
    removed: new Set(),
    delivered: new Map(),
  }
}

/** Runs the writer, kills it at a random time after its first output, and records the output. */
export async function runAndKill(place: string, output: WriterOutput): Promise<void> {
  const child = spawn(process.execPath, [crashWriter, 'for-ever', place], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let isKilled = false
  for await (const line of createInterface(child.stdout)) {
    recordLine(output, line.split(' '))
    if (isKilled) continue
    isKilled = true
    void pause(50 + Math.random() * 500).then(() => child.kill('SIGKILL'))
  }
}

function recordLine(output: WriterOutput, [word, id = '', number = '', event = '']: string[]): void {
  if (word === 'created') output.stored.set(id, new Map())
  if (word === 'stored') output.stored.get(id)?.set(Number(number), event)
  if (word === 'importing') output.importing.set(id, Number(number))
  if (word === 'published') output.published.add(id)
  if (word === 'removing') output.removing.add(id)
  if (word === 'removed') output.removed.add(id)
  if (word === 'delivered') output.delivered.set(id, Number(number))
}

/** What was acknowledged is there, once and in order. */
export async function checkOutput(
  { log, conversations, deliveries }: Storage,
  output: WriterOutput,
): Promise<void> {
  for (const [id, stored] of output.stored) {
    const [record] = await conversations.get([id])
    if (output.removed.has(id)) expect(record).toBeUndefined()
    else if (!output.removing.has(id)) expect(record).toBeDefined()
    if (record === undefined) continue
    const events = await log.read(id, 0, 1_000_000)
    expect(events.map((event) => event.position)).toEqual(events.map((_, i) => i + 1))
    expect(record.head).toBe(events.length)
    expect(new Set(events.map((event) => event.id)).size).toBe(events.length)
    for (const [position, event] of stored) expect(events[position - 1]?.id).toBe(event)
  }
  for (const [id, count] of output.importing) {
    const [record] = await conversations.get([id])
    if (output.published.has(id)) expect(record).toBeDefined()
    if (record !== undefined) expect((await log.read(id, 0, 1_000_000)).length).toBe(count)
  }
  for (const { conversation, position } of await deliveries.listPending('r', 1_000_000))
    expect(position).toBeGreaterThanOrEqual(output.delivered.get(conversation) ?? 0)
}
