import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { openStorage, type SqliteStorage } from './storage.ts'

const writer = fileURLToPath(new URL('./testing/crash-writer.ts', import.meta.url))
const rounds = Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 5)

interface WriterOutput {
  /** By conversation: id at each position that was acknowledged. */
  readonly stored: Map<string, Map<number, string>>
  readonly importing: Map<string, number>
  readonly published: Set<string>
  readonly removing: Set<string>
  readonly removed: Set<string>
  /** By conversation: the receiver's position. */
  readonly delivered: Map<string, number>
}

/** A directory is replaced after this many kills, because reading it takes longer with each. */
const roundsOfDirectory = 20

test(`acknowledged writes survive a kill of the process, ${rounds} times`, {
  timeout: 60_000 + rounds * 5_000,
}, async () => {
  for (let left = rounds; left > 0; left -= roundsOfDirectory)
    await killRepeatedly(Math.min(left, roundsOfDirectory))
})

async function killRepeatedly(times: number): Promise<void> {
  using directory = temporaryDirectory()
  const output: WriterOutput = {
    stored: new Map(),
    importing: new Map(),
    published: new Set(),
    removing: new Set(),
    removed: new Set(),
    delivered: new Map(),
  }
  for (let round = 0; round < times; round++) {
    await runAndKill(directory.path, output)
    await using storage = await openStorage({ directory: directory.path })
    await check(storage, output)
  }
  const db = new DatabaseSync(join(directory.path, 'log.db'))
  expect(db.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
  db.close()
}

test('an event is synced before it is acknowledged, a group with one sync', () => {
  if (spawnSync('strace', ['-V']).error !== undefined) {
    console.warn('SKIPPED: strace is not installed, so the syncs before an acknowledgement were not counted')
    return
  }
  using directory = temporaryDirectory()
  const trace = join(directory.path, 'trace')
  const calls = ['-f', '-y', '-o', trace, '-e', 'trace=fsync,fdatasync,write']
  const seccomp = ['--seccomp-bpf']
  execFileSync('strace', [...seccomp, ...calls, process.execPath, writer, 'few', directory.path])
  const steps = readFileSync(trace, 'utf8')
    .split('\n')
    .flatMap((line) => {
      if (/(fsync|fdatasync)\(\d+<[^>]*log\.db-wal>.*= 0$/.test(line)) return ['sync']
      return /write\(1<.*"(\w+)/.exec(line)?.slice(1) ?? []
    })
  const group = steps.lastIndexOf('group')
  const single = steps.slice(steps.indexOf('stored'), group)
  expect(single.filter((step) => step === 'stored')).toHaveLength(20)
  for (const [i, step] of single.entries()) if (i > 0 && step === 'stored') expect(single[i - 1]).toBe('sync')
  const grouped = steps.slice(group + 1)
  expect(grouped.slice(0, 21)).toEqual(['sync', ...Array(20).fill('stored')])
})

test('when the file cannot grow, writes are refused from then on, and acknowledged events are readable', async () => {
  using directory = temporaryDirectory()
  const command = 'ulimit -f 300; exec "$@"'
  const output = execFileSync('bash', [
    '-c',
    command,
    'bash',
    process.execPath,
    writer,
    'until-failure',
    directory.path,
  ])
  const lines = output
    .toString()
    .trim()
    .split('\n')
    .map((line) => line.split(' '))
  const stored = lines.filter(([word]) => word === 'stored')
  expect(lines.filter(([word]) => word === 'failed')).toEqual([
    ['failed', 'unavailable'],
    ['failed', 'unavailable'],
  ])
  expect(lines.at(-1)).toEqual(['readable', String(stored.length)])
  await using storage = await openStorage({ directory: directory.path })
  const events = await storage.log.read(stored[0]?.[1] ?? '', 0, 1_000_000)
  expect(events.map((event) => event.id)).toEqual(stored.map(([, , , id]) => id))
})

test('the open file has the settings that durability requires', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  expect(storage.pragmas()).toEqual({ journal_mode: 'wal', synchronous: 2 })
})

test('a directory is locked by one process, and unlocked when that process is killed', async () => {
  using directory = temporaryDirectory()
  const child = spawn(process.execPath, [writer, 'for-ever', directory.path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const _ of createInterface(child.stdout)) break
  await expect(openStorage({ directory: directory.path })).rejects.toThrow('in use by another process')
  child.kill('SIGKILL')
  await new Promise((resolve) => child.once('close', resolve))
  await using storage = await openStorage({ directory: directory.path })
  await expect(openStorage({ directory: directory.path })).rejects.toThrow('in use by another process')
  expect(await storage.conversations.count()).toBeGreaterThan(0)
})

/** Runs the writer, kills it at a random time after its first output, and records the output. */
async function runAndKill(directory: string, output: WriterOutput): Promise<void> {
  const child = spawn(process.execPath, [writer, 'for-ever', directory], {
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

async function check({ log, conversations, deliveries }: SqliteStorage, output: WriterOutput): Promise<void> {
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
