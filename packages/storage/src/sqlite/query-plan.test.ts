import { join } from 'node:path'
import { expect, test } from 'vitest'
import { documentNamesSql, documentSql } from '../control-plane/stores/documents.ts'
import type { ConversationSort } from '../conversations/conversation-records.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { searchSql } from './conversations/conversation-records.ts'
import { Database } from './database/database.ts'
import { cursorSql, visibleSql } from './deliveries/deliveries.ts'
import { rangeSql, seekSql, walkSql } from './event-log/event-search.ts'
import { logMigrations } from './event-log/schema.ts'
import { indexMigrations, matchSql, scanSql, unindexedSql } from './event-log/text-sql.ts'

const both = [true, false]

test('pages of events are merged index ranges, without scan or sort', () => {
  using directory = temporaryDirectory()
  const db = open(directory.path, logMigrations)
  const arms = [undefined, 1, 2, 8, 64]
  const walks = both.flatMap((isTied) =>
    both.flatMap((isDescending) => arms.map((arms) => walkSql({ isTied, isDescending, arms }))),
  )
  const ranges = both.flatMap((isDescending) => [
    rangeSql(isDescending),
    seekSql('>=', isDescending),
    seekSql('<', isDescending),
    unindexedSql(isDescending ? 'DESC' : 'ASC'),
  ])
  for (const sql of [...walks, ...ranges]) {
    for (const step of db.plan(sql)) expect(step).toMatch(/^(SEARCH event USING|MERGE|LEFT$|RIGHT$)/)
  }
  db.close()
})

test('pages of conversations are walked in the order of an index', () => {
  using directory = temporaryDirectory()
  const db = open(directory.path, logMigrations)
  const orders: ConversationSort[] = ['CREATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT', 'UPDATED_AT_DESC']
  for (const sort_order of orders) {
    for (const status of [undefined, 'idle']) {
      for (const start of [
        undefined,
        [1, 'x', null, '{}', 'idle', null, null, 1, null, null, 2, 0] as const,
      ]) {
        const plan = db.plan(searchSql({ sort_order, status, start }).sql)
        for (const step of plan) expect(step).toMatch(/^(SEARCH|SCAN) conversation USING INDEX/)
      }
    }
  }
  db.close()
})

test('a pending delivery is an index lookup', () => {
  using directory = temporaryDirectory()
  const db = open(directory.path, logMigrations)
  expect(db.plan(visibleSql)).toEqual(['SEARCH conversation USING INDEX conversation_id (id=?)'])
  expect(db.plan(cursorSql)).toEqual(['SEARCH delivery USING PRIMARY KEY (receiver=? AND conversation=?)'])
  db.close()
})

test('a document is an index lookup', () => {
  using directory = temporaryDirectory()
  const db = open(directory.path, logMigrations)
  for (const sql of [documentSql, documentNamesSql])
    for (const step of db.plan(sql)) expect(step).toMatch(/^SEARCH document USING (?:COVERING )?INDEX/)
  db.close()
})

test('a text search uses the trigram index, in order of row', () => {
  using directory = temporaryDirectory()
  const db = open(directory.path, indexMigrations)
  for (const order of ['ASC', 'DESC'] as const) {
    const [first, ...rest] = db.plan(matchSql(order))
    expect(first).toMatch(/^SCAN trigram VIRTUAL TABLE INDEX/)
    for (const step of [...rest, ...db.plan(scanSql(order))])
      expect(step).toMatch(/^SEARCH message USING INTEGER PRIMARY KEY/)
  }
  db.close()
})

function open(path: string, migrations: readonly string[]): Database {
  return new Database(join(path, 'test.db'), { synchronous: 'NORMAL', cacheBytes: 1_000_000, migrations })
}
