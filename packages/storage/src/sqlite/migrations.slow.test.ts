import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { type Fault, FaultAt, noFaults, Trace } from '../testing/faults/fault-plan.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { controlPlaneMigrations } from './control-plane/schema.ts'
import { Database } from './database/database.ts'
import { logMigrations } from './event-log/schema.ts'
import { injectFaults } from './testing/sqlite-faults.ts'

const versions = join(import.meta.dirname, 'testing/versions')
const cases = [
  {
    name: 'log',
    version: 1,
    migrations: logMigrations,
    rows: 'SELECT row, id, body FROM event ORDER BY row',
  },
  {
    name: 'log',
    version: 8,
    migrations: logMigrations,
    rows: 'SELECT row, id, body FROM event ORDER BY row',
  },
  { name: 'control', version: 1, migrations: controlPlaneMigrations, rows: 'SELECT id, name FROM user' },
] as const
const settings = { synchronous: 'FULL', cacheBytes: 1_000_000 } as const

test.each(cases)(
  '$name, version $version: a migration that fails at any statement, or is killed there, leaves the file as it was',
  ({ name, version, migrations, rows }) => {
    using root = temporaryDirectory()
    const bytes = gunzipSync(readFileSync(join(versions, `${name}-v${version}.db.gz`)))
    let count = 0
    /** Opens a fresh file with these faults. */
    const open = (use: (path: string, faults: ReturnType<typeof injectFaults>) => void) => {
      const directory = join(root.path, String(count++))
      mkdirSync(directory)
      const path = join(directory, `${name}.db`)
      writeFileSync(path, bytes)
      using faults = injectFaults(path)
      use(path, faults)
    }
    const read = (path: string) => {
      using db = new DatabaseSync(path)
      return { version: db.prepare('PRAGMA user_version').get()?.user_version, rows: db.prepare(rows).all() }
    }
    const trace = new Trace()
    let before: ReturnType<typeof read> | undefined
    open((path, faults) => {
      before = read(path)
      faults.plan = trace
      new Database(path, { ...settings, migrations }).close()
      faults.plan = noFaults
      expect(read(path)).toEqual({ ...before, version: migrations.length })
    })
    const begin = trace.points.indexOf('BEGIN IMMEDIATE')
    const commit = trace.points.indexOf('COMMIT')
    expect([begin > 0, commit - begin > migrations.length - version]).toEqual([true, true])
    const changes = [...trace.points.entries()].filter(
      ([, sql]) => !/^ ?(?:SELECT|PRAGMA (?!user_version =))/.test(sql),
    )
    for (const [at, sql] of changes)
      for (const fault of ['fail', 'full', 'lose', 'cut'] satisfies Fault[])
        open((path, faults) => {
          const label = `${fault} at ${at}: ${sql}`
          const killed = join(root.path, `${count}-killed`)
          faults.onCut = () => cpSync(join(path, '..'), killed, { recursive: true })
          faults.plan = new FaultAt(at, fault)
          let error: unknown
          try {
            new Database(path, { ...settings, migrations }).close()
          } catch (thrown) {
            error = thrown
          }
          faults.plan = noFaults
          const left = fault === 'cut' ? join(killed, `${name}.db`) : path
          const found = read(left)
          expect([version, migrations.length], label).toContain(found.version)
          expect(found.rows, label).toEqual(before?.rows)
          if (fault !== 'cut' && at >= begin && at < commit) {
            expect(found.version, label).toBe(version)
            expect(String(error), label).toContain(`${path} could not be migrated from version ${version}`)
            expect(String(error), label).toContain(`It is unchanged, and ${path}.v${version}.bak is a copy`)
            expect(read(`${path}.v${version}.bak`), label).toEqual(before)
          }
          new Database(left, { ...settings, migrations }).close()
          expect(read(left), label).toEqual({ ...before, version: migrations.length })
          expect(existsSync(`${left}.v${version}.bak`), label).toBe(true)
        })
    console.log(
      `migration of ${name}.db from version ${version}: ${changes.length} points, ${count - 1} rounds`,
    )
  },
)
