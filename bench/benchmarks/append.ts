import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { must } from '@slipway/protocol'
import type { EventDraft, ReceivedEvent, Storage } from '@slipway/storage'
import { type BenchContext, conversationId, withStorage } from '../support/fixtures.ts'
import { firstInstant, generateLog } from '../support/generate-log.ts'
import { atLeast, Floor, information, type MeasuredPair, type ResultRow } from '../support/result-table.ts'

const groupSize = 100
const floorName = 'a bare `node:sqlite` loop of the same rows'

/**
 * Durable appends of events of about 1 kB, a hundred callers at a time: at least 0.5 of a bare `node:sqlite`
 * loop that inserts the same rows into the same tables, with the same indexes, pragmas and group size.
 */
export async function append(bench: BenchContext): Promise<ResultRow[]> {
  const events = [...generateLog({ count: bench.isQuick ? 500 : 20_000, words: 110 })]
  const drafts = events.map(toDraft)
  const rounds = bench.isQuick ? 1 : 5
  const rows: ResultRow[] = []
  for (const [name, input] of [
    ['received events', events],
    ['drafts', drafts],
  ] as const) {
    const pairs: MeasuredPair[] = []
    for (let round = 0; round < rounds; round++) pairs.push(await measurePair(bench, input, appendInGroups))
    rows.push(atLeast(`${name}, ${groupSize} at a time`, 'appends/s', { floorName, pairs }, 0.5))
  }
  const { ours, floor } = await measurePair(bench, drafts.slice(0, 2000), appendOneByOne, 1)
  rows.push(information('drafts, one at a time', 'appends/s', ours, Floor.of(floorName, [floor])))
  return rows
}

/** The event as a writer appends it: the log adds id and timestamp. */
function toDraft({ bytes }: ReceivedEvent): EventDraft {
  const { id: _, timestamp: __, ...draft } = JSON.parse(bytes.toString())
  return draft
}

type InputEvents = readonly (EventDraft | ReceivedEvent)[]

async function appendInGroups({ log }: Storage, events: InputEvents): Promise<void> {
  for (let i = 0; i < events.length; i += groupSize) {
    await Promise.all(events.slice(i, i + groupSize).map((event) => log.append(conversationId, [event])))
  }
}

async function appendOneByOne({ log }: Storage, events: InputEvents): Promise<void> {
  for (const event of events) await log.append(conversationId, [event])
}

/** Appends per second, both into new files: ours, then the floor with the same rows. */
async function measurePair(
  bench: BenchContext,
  events: InputEvents,
  write: (storage: Storage, events: InputEvents) => Promise<void>,
  size = groupSize,
): Promise<MeasuredPair> {
  const data = await bench.directory()
  const ours = await withStorage(data, async (storage) => {
    await storage.conversations.create({ id: conversationId })
    return await measureRate(events.length, () => write(storage, events))
  })
  const floor = await bareLoop(join(data, 'log.db'), join(await bench.directory(), 'floor.db'), size)
  return { ours, floor }
}

/** One statement for each row in transactions of `size`, with an update of the conversation's row in each. */
async function bareLoop(source: string, target: string, size: number): Promise<number> {
  using database = new DatabaseSync(target)
  const rows = copySchema(source, database)
  const placeholders = must(rows[0], 'a row').map(() => '?')
  const insert = database.prepare(`INSERT INTO event VALUES (${placeholders.join(', ')})`)
  const update = database.prepare('UPDATE conversation SET head = ?, last_instant = ?, updated_at = ?')
  return await measureRate(rows.length, async () => {
    for (let i = 0; i < rows.length; i += size) {
      database.exec('BEGIN IMMEDIATE')
      for (const row of rows.slice(i, i + size)) insert.run(...row)
      update.run(i + size, firstInstant + i, firstInstant + i)
      database.exec('COMMIT')
    }
  })
}

/**
 * Creates the tables, indexes, pragmas and other rows of a log in an empty database; returns the rows of its
 * events.
 */
function copySchema(source: string, into: DatabaseSync): SQLInputValue[][] {
  into.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 2000')
  using from = new DatabaseSync(source, { readOnly: true })
  const read = (sql: string) => {
    const statement = from.prepare(sql)
    statement.setReturnArrays(true)
    return statement.all() as unknown as SQLInputValue[][]
  }
  for (const [sql] of read(
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'",
  )) {
    into.exec(String(sql))
  }
  for (const row of read('SELECT * FROM conversation')) {
    into.prepare(`INSERT INTO conversation VALUES (${row.map(() => '?').join(', ')})`).run(...row)
  }
  return read('SELECT * FROM event ORDER BY rowid')
}

async function measureRate(count: number, work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return count / ((performance.now() - startedAt) / 1000)
}
