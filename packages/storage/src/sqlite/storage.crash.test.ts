import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { checkOutput, newOutput, runAndKill, crashWriter as writer } from '../testing/crash-rounds.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { openStorage } from './storage.ts'

const rounds = Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 3)

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
  const output = newOutput()
  for (let round = 0; round < times; round++) {
    await runAndKill(directory.path, output)
    await using storage = await openStorage({ directory: directory.path })
    await checkOutput(storage, output)
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
  const steps = readSteps(readFileSync(trace, 'utf8'))
  const group = steps.lastIndexOf('group')
  const single = steps.slice(steps.indexOf('stored'), group)
  expect(single.filter((step) => step === 'stored')).toHaveLength(20)
  for (const [i, step] of single.entries()) if (i > 0 && step === 'stored') expect(single[i - 1]).toBe('sync')
  const grouped = steps.slice(group + 1)
  expect(grouped.slice(0, 21)).toEqual(['sync', ...Array(20).fill('stored')])
})

/** Syncs of the write-ahead log that have ended, and what the writer has printed, in order. */
function readSteps(trace: string): string[] {
  const syncing = new Set<string>()
  return trace.split('\n').flatMap((line) => {
    const [thread = ''] = line.split(' ', 1)
    const isSync = /(fsync|fdatasync)\(\d+<[^>]*log\.db-wal>/.test(line)
    // Another thread called something before it ended.
    if (isSync && line.endsWith('<unfinished ...>')) syncing.add(thread)
    const isEnd = isSync || (line.includes('sync resumed>') && syncing.delete(thread))
    if (isEnd && line.endsWith('= 0')) return ['sync']
    return /write\(1<.*"(\w+)/.exec(line)?.slice(1) ?? []
  })
}

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
