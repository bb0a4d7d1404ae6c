import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatInstant } from '@slipway/protocol'
import { openBashEvents } from '@slipway/storage'
import { expect, test } from 'vitest'
import { BashEventStore } from './event-store.ts'
import { importCommandFiles } from './import-command-files.ts'

const start = Date.parse('2026-03-01T10:00:00Z') * 1000

/**
 * A data directory as an older version left it: `bash/` with a file for each command, a line for each event.
 */
function oldDirectory() {
  const path = mkdtempSync(join(tmpdir(), 'slipway-bash-'))
  const bash = join(path, 'bash')
  mkdirSync(bash)
  let instant = start
  const writeCommand = (id: string, stdouts: readonly string[], exitCode?: number, rest = '') => {
    const name = `${formatInstant(instant).replaceAll(/\D/g, '')}_${id}.jsonl`
    const timestamp = () => formatInstant(instant++)
    const lines: object[] = [
      { command: 'true', cwd: null, timeout: 300, id, timestamp: timestamp(), kind: 'BashCommand' },
    ]
    const add = (exit_code: number | null, stdout: string | null) => {
      const order = lines.length - 1
      const eventId = `${order}`.padStart(4, '0') + id.slice(4)
      lines.push({
        id: eventId,
        timestamp: timestamp(),
        command_id: id,
        order,
        exit_code,
        stdout,
        stderr: null,
        kind: 'BashOutput',
      })
    }
    for (const stdout of stdouts) add(null, stdout)
    if (exitCode !== undefined) add(exitCode, null)
    const texts = lines.map((line) => JSON.stringify(line))
    writeFileSync(join(bash, name), `${texts.join('\n')}\n${rest}`)
    return { name, texts }
  }
  return {
    path,
    bash,
    writeCommand,
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  }
}

const ids = Array.from({ length: 20 }, (_, n) => `ffff${n.toString(16).padStart(28, '0')}`)

async function readAll(path: string): Promise<string[]> {
  await using events = new BashEventStore({
    directory: path,
    log: () => {},
    now: () => start,
    retentionMs: undefined,
  })
  const query = { sort_order: 'TIMESTAMP', limit: 100, page_id: undefined } as const
  const { items }: { items: unknown[] } = JSON.parse((await events.search(query)).toString())
  return items.map((item) => JSON.stringify(item))
}

test('the files of an older version become rows, byte for byte and in order, and are removed', async () => {
  using old = oldDirectory()
  const finished = old.writeCommand(ids[0] ?? '', ['a', '€'], 0)
  const running = old.writeCommand(ids[1] ?? '', ['so far'], undefined, '{"id":"0123')
  writeFileSync(join(old.bash, `20260301100000000000_${'0'.repeat(32)}.jsonl`), '{"comm')
  const all = await readAll(old.path)
  expect(all.slice(0, -1)).toEqual([...finished.texts, ...running.texts])
  expect(JSON.parse(all.at(-1) ?? '')).toMatchObject({ command_id: ids[1], order: 1, exit_code: -1 })
  expect(existsSync(old.bash)).toBe(false)
  expect(await readAll(old.path)).toEqual(all)
})

test('files of others stay, and so does a file that cannot be read', async () => {
  using old = oldDirectory()
  const { texts } = old.writeCommand(ids[0] ?? '', [], 0)
  const unreadable = `20260301100000000000_${'1'.repeat(32)}.jsonl`
  mkdirSync(join(old.bash, unreadable))
  writeFileSync(join(old.bash, 'notes.txt'), 'not ours')
  expect(await readAll(old.path)).toEqual(texts)
  expect(readdirSync(old.bash).sort()).toEqual([unreadable, 'notes.txt'].sort())
})

test('an interrupted import continues at the next start and stores each event once', async () => {
  using old = oldDirectory()
  const pieces = ['x'.repeat(1_500_000), 'y'.repeat(1_500_000)]
  const texts = ids.flatMap((id) => old.writeCommand(id, pieces, 0).texts)
  using events = openBashEvents(join(old.path, 'bash.db'))
  let callsLeft = 0
  /** As if the process died: after that many calls nothing happens any more. */
  const call = (work: () => void) => {
    if (callsLeft-- <= 0) throw new Error('killed')
    work()
  }
  const killed = {
    add: (rows: Parameters<typeof events.add>[0]) => call(() => events.add(rows)),
    sync: () => call(() => events.sync()),
  }
  for (const calls of [1, 3, 14, 20]) {
    callsLeft = calls
    await importCommandFiles(old.bash, killed, () => {}).catch(() => {})
  }
  const left = readdirSync(old.bash).length
  expect(left).toBeGreaterThan(0)
  expect(left).toBeLessThan(ids.length)
  await importCommandFiles(old.bash, events, () => {})
  expect(existsSync(old.bash)).toBe(false)
  const stored = [...events.read({})].map(({ body }) => body.toString())
  expect(stored.length).toBe(texts.length)
  expect(stored.every((body, index) => body === texts[index])).toBe(true)
})
