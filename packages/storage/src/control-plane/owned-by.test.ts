import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { everyOwner, ownedBy } from './owned-by.ts'

const owner = fc.constantFrom('ada', 'bob', null)
const org = fc.constantFrom('x', 'y', null)
const scope = fc.record({ owner, org: fc.constantFrom('x', 'y', undefined) })
const anyScope = fc.oneof(scope, fc.constant(everyOwner))

test('the conditions select exactly the rows that it includes', () => {
  using db = new DatabaseSync(':memory:')
  db.exec('CREATE TABLE rows (owner TEXT, org TEXT)')
  const insert = db.prepare('INSERT INTO rows VALUES (?, ?)')
  const rows = [null, 'ada', 'bob'].flatMap((owner) => [null, 'x', 'y'].map((org) => ({ owner, org })))
  for (const row of rows) insert.run(row.owner, row.org)
  fc.assert(
    fc.property(anyScope, (one) => {
      const { where, values, includes } = ownedBy(one)
      const found = db.prepare(`SELECT * FROM rows WHERE ${where.join(' AND ')}`).all(...values)
      expect(found.map((row) => ({ ...row }))).toEqual(rows.filter((row) => includes(row)))
    }),
  )
})

test('rows of another owner or organisation and missing rows are not included', () => {
  fc.assert(
    fc.property(scope, owner, org, (one, rowOwner, rowOrg) => {
      const isIncluded = ownedBy(one).includes({ owner: rowOwner, org: rowOrg })
      expect(isIncluded).toBe(rowOwner === one.owner && (one.org === undefined || rowOrg === one.org))
    }),
  )
  expect(ownedBy({ owner: null, org: undefined }).includes(undefined)).toBe(false)
})
