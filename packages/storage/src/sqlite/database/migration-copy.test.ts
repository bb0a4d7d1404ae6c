import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from './database.ts'

test('the copy before an upgrade has what was written since an earlier upgrade from the same version', () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'one.db')
  const copy = `${path}.v1.bak`
  const migrations = ['CREATE TABLE note (body TEXT)', 'ALTER TABLE note ADD COLUMN title TEXT']
  const use = (version: number, work: (db: Database) => unknown = () => {}) => {
    const settings = { cacheBytes: 65_536, migrations: migrations.slice(0, version) }
    const db = new Database(path, { ...settings, synchronous: 'NORMAL' })
    work(db)
    db.close()
  }
  const readCopy = () => {
    const db = new Database(copy, { readOnly: true, synchronous: 'NORMAL', cacheBytes: 65_536, migrations })
    const rows = db.all('SELECT * FROM note')
    db.close()
    return rows
  }
  use(1, (db) => db.run('INSERT INTO note VALUES (?)', 'of the first version'))
  use(2)
  expect(readCopy()).toEqual([['of the first version']])
  copyFileSync(copy, path)
  use(1, (db) => db.run('INSERT INTO note VALUES (?)', 'after the downgrade'))
  use(2)
  expect(readCopy()).toEqual([['of the first version'], ['after the downgrade']])
})
