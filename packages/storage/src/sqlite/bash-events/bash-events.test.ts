import { statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Problem } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { bashEventsContract } from '../../bash-events/bash-events.contract.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { StorageHealth } from '../database/storage-health.ts'
import { bashMigrations, openBashEvents, SqliteBashEvents } from './bash-events.ts'

bashEventsContract(() => {
  const directory = temporaryDirectory()
  return {
    open: () => openBashEvents(join(directory.path, 'bash.db')),
    [Symbol.dispose]: () => directory[Symbol.dispose](),
  }
})

function openSmall(path: string) {
  const db = new Database(path, { synchronous: 'NORMAL', cacheBytes: 1_000_000, migrations: bashMigrations })
  return { db, events: new SqliteBashEvents(db, new StorageHealth(dirname(path), () => {})) }
}

function output(instant: number, isLast: boolean, sizeBytes: number) {
  return {
    instant,
    id: `${instant}`,
    commandId: 'a',
    conversationId: null,
    order: instant,
    isLast,
    body: Buffer.alloc(sizeBytes),
  }
}

test('a full disk is a storage_full problem, and an event in memory can still be added', () => {
  using directory = temporaryDirectory()
  const { db, events } = openSmall(join(directory.path, 'bash.db'))
  using _ = events
  db.pragma('max_page_count = 50')
  const add = () => events.add([output(1, false, 10), output(2, true, 1_000_000)])
  expect(add).toThrow(Problem)
  expect(add).toThrow(expect.objectContaining({ code: 'storage_full' }))
  expect(events.totals).toEqual({ count: 0, sizeBytes: 0 })
  events.addInMemory(output(3, true, 1_000_000))
  expect([...events.read({})].map(({ id }) => id)).toEqual(['3'])
})

test('a changed event is an error that names it, and one of an earlier version is read', () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'bash.db')
  const change = (sql: string) => {
    const db = new Database(path, {
      synchronous: 'NORMAL',
      cacheBytes: 1_000_000,
      migrations: bashMigrations,
    })
    db.run(sql)
    db.close()
  }
  {
    using events = openBashEvents(path)
    events.add([output(1, false, 10), output(2, true, 10)])
    expect([...events.read({})]).toHaveLength(2)
  }
  for (const [set, back] of [
    ["body = x'ff'", 'body = zeroblob(10)'],
    ['output_order = 3', 'output_order = 2'],
  ]) {
    change(`UPDATE bash_event SET ${set} WHERE id = '2'`)
    using events = openBashEvents(path)
    const damaged = {
      code: 'unavailable',
      message: expect.stringMatching(/Event 2 of \/api\/bash .*bash\.db is damaged/),
    }
    expect(() => [...events.read({})]).toThrow(expect.objectContaining(damaged))
    expect(() => events.get('2')).toThrow(expect.objectContaining(damaged))
    expect(events.get('1')).toMatchObject({ order: 1 })
    change(`UPDATE bash_event SET ${back} WHERE id = '2'`)
  }
  change("UPDATE bash_event SET checksum = NULL, output_order = 3 WHERE id = '2'")
  using events = openBashEvents(path)
  expect([...events.read({})].map(({ order }) => order)).toEqual([1, 3])
})

test('the file becomes small when its events have been removed', () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'bash.db')
  using events = openBashEvents(path)
  for (let instant = 1; instant <= 30; instant++) events.add([output(instant, instant === 30, 1_000_000)])
  events.remove(['a'])
  events.compact()
  expect(statSync(path).size).toBeLessThan(1_000_000)
})

test('free space is given back in steps while events are stored, and a close ends that', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'bash.db')
  using events = openBashEvents(path)
  for (let instant = 1; instant <= 40; instant++) events.add([output(instant, instant === 40, 1_000_000)])
  for (let instant = 41; instant <= 60; instant++)
    events.add([{ ...output(instant, true, 1_000_000), commandId: 'b' }])
  events.remove(['a'])
  const { signal } = new AbortController()
  const compacting = events.compactInSteps({ signal, maxMs: 60_000 })
  events.add([{ ...output(61, true, 10), commandId: 'b' }])
  expect(await compacting).toMatchObject({ name: 'bash.db', free_bytes: 0, needs_stop: false })
  expect(statSync(path).size).toBeLessThan(25_000_000)
  expect(events.totals.count).toBe(21)
  events.remove(['b'])
  const closed = events.compactInSteps({ signal, maxMs: 60_000 })
  events[Symbol.dispose]()
  await expect(closed).rejects.toThrow()
})

test('the queries of pages and of retention use indexes', () => {
  using directory = temporaryDirectory()
  const { db, events } = openSmall(join(directory.path, 'bash.db'))
  using _ = events
  for (const where of [
    "id = 'x'",
    "conversation_id IS 'x' AND instant >= 5 ORDER BY instant",
    'instant >= 5 ORDER BY instant',
    "command_id = 'x' ORDER BY instant DESC",
  ]) {
    const plan = db.plan(`SELECT * FROM all_event WHERE ${where} LIMIT 5`).join('\n')
    expect(plan).not.toMatch(/SCAN main\.bash_event|TEMP B-TREE|MATERIALIZE/)
  }
  const expired = db
    .plan('SELECT command_id FROM all_event WHERE is_last = 1 AND instant < 5 AND +conversation_id IS NULL')
    .join('\n')
  expect(expired).toMatch(/SEARCH main.bash_event USING COVERING INDEX bash_event_end/)
})
