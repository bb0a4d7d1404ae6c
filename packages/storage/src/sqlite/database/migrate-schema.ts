import { renameSync, rmSync } from 'node:fs'
import type { StatementSync } from 'node:sqlite'
import { compareSchema } from './compare-schema.ts'
import { closeToOthers, type Value } from './connection.ts'
import { rewrite } from './wal/wal-file.ts'

/** What a migration uses of a database. */
interface Migrated {
  readonly path: string
  pragma(name: string): unknown
  prepare(sql: string): StatementSync
  iterate(sql: string, ...values: Value[]): Iterable<unknown>
  transaction(work: () => void): void
}

/** Brings the schema of a file up to date. Throws an Error with the next step where that is not possible. */
export function migrateSchema(
  db: Migrated,
  migrations: readonly string[],
  execute: (sql: string) => void,
): void {
  migrate(db, migrations, execute)
  assertSchema(db, migrations)
}

function migrate(db: Migrated, migrations: readonly string[], execute: (sql: string) => void): void {
  const from = Number(db.pragma('user_version'))
  if (from > migrations.length)
    throw new Error(
      `${db.path} was written by a newer version (its schema is ${from}, this version knows ${migrations.length}). Start that version, or restore a backup that was made before the upgrade.`,
    )
  if (from === migrations.length) return
  const copy = `${db.path}.v${from}.bak`
  if (from > 0) {
    assertSchema(db, migrations.slice(0, from))
    copyBeforeMigration(db, copy)
  }
  try {
    // All of them or none.
    db.transaction(() => {
      for (const [index, sql] of migrations.entries())
        if (index >= from) execute(`${sql}; PRAGMA user_version = ${index + 1}`)
      assertSchema(db, migrations)
    })
  } catch (cause) {
    // A commit that was reported as failed may be stored.
    if (Number(db.pragma('user_version')) === migrations.length) return
    if (from === 0) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(
      `${db.path} could not be migrated from version ${from} of its schema to ${migrations.length}: ${reason}. It is unchanged, and ${copy} is a copy of it: start the version that wrote it, or remove the cause and start again.`,
      { cause },
    )
  }
}

/** Replaces the copy of an earlier attempt or upgrade, which may be older than the file. */
function copyBeforeMigration(db: Migrated, copy: string): void {
  const draft = `${copy}.draft`
  try {
    rmSync(draft, { force: true })
    db.prepare('VACUUM INTO ?').run(draft)
    closeToOthers(draft)
    rewrite(draft)
    renameSync(draft, copy)
  } catch (cause) {
    rmSync(draft, { force: true, recursive: true })
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(
      `${db.path} has to be migrated, but the copy ${copy} cannot be made: ${reason}. Make room for it.`,
      { cause },
    )
  }
}

function assertSchema(db: Migrated, migrations: readonly string[]): void {
  const difference = compareSchema((sql, ...values) => [...db.iterate(sql, ...values)] as never, migrations)
  if (difference !== undefined)
    throw new Error(`${db.path} is damaged: ${difference}. Restore it from a backup. See "slipway doctor".`)
}
