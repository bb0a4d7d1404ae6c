import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import { FaultAt, noFaults, Trace } from '../testing/faults/fault-plan.ts'
import { openPostgresControlPlaneStore } from './control-plane/control-plane-store.ts'
import { migrations } from './database/schema.ts'
import { openPostgresStorage } from './storage.ts'
import { DatabaseProxy } from './testing/database-proxy.ts'
import { createTestSchema, describePostgres, runSql, type TestSchema } from './testing/test-database.ts'

vi.setConfig({ testTimeout: 120_000 })

/** Dumps of the tables of earlier versions, by `scripts/write-data-fixture.ts` with the sources of each. */
const folder = join(import.meta.dirname, 'testing/versions')
const fixtures = readdirSync(folder).map((file) => ({ file, version: Number(/-v(\d+)\./.exec(file)?.[1]) }))
const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const importedId = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'

/** A schema with the tables of a dump. */
async function restore(file: string): Promise<TestSchema> {
  // Others may create it at the same time.
  await runSql('CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public').catch(() => {})
  const schema = await createTestSchema()
  const dump = gunzipSync(readFileSync(join(folder, file))).toString()
  await runSql(dump.replace('CREATE SCHEMA fixture;', '').replaceAll(/\bfixture\b/g, schema.name))
  return schema
}

async function readTables({ url }: TestSchema) {
  const [version] = await runSql('SELECT version FROM slipway_schema', url)
  const columns = await runSql(
    `SELECT table_name, column_name, data_type FROM information_schema.columns
     WHERE table_schema = current_schema() ORDER BY 1, 2`,
    url,
  )
  const events = await runSql(
    'SELECT conversation, position, id, instant, body FROM event ORDER BY conversation, position',
    url,
  )
  return { version: version?.version, columns, events }
}

describePostgres('tables of earlier versions', () => {
  test.each(fixtures)('$file is migrated, with every byte of its events', async ({ file, version }) => {
    await using schema = await restore(file)
    const before = await readTables(schema)
    expect(before.version).toBe(version)
    {
      await using storage = await openPostgresStorage({ url: schema.url })
      const [record, imported] = await storage.conversations.get([id, importedId])
      expect(record).toMatchObject({ title: 'Σ', tags: { team: 'blue' }, status: 'paused', head: 50 })
      expect(imported).toMatchObject({ title: 'imported', head: 60 })
      const lines = await storage.log.read(importedId, 0, 100)
      expect(lines.map(({ bytes }) => bytes.toString())).toEqual(
        before.events.slice(-60).map(({ body }) => String(body)),
      )
      await storage.waitUntilIndexed()
      expect(await storage.log.count(id, { body: 'text 39 OF' })).toBe(1)
      await storage.log.append(id, [{ kind: 'PauseEvent', source: 'user' }])
    }
    const after = await readTables(schema)
    expect(after.version).toBe(migrations.length)
    // Without the one that was appended.
    expect(after.events.toSpliced(50, 1)).toEqual(before.events)
    await using controlPlane = await openPostgresControlPlaneStore({ url: schema.url })
    // The first version had no tables of a control plane.
    const user = version === 1 ? undefined : { id: 'u1', name: 'Ada', is_admin: true }
    if (user === undefined) expect(await controlPlane.users.getUser('u1')).toBeUndefined()
    else expect(await controlPlane.users.getUser('u1')).toMatchObject(user)
    const document = await controlPlane.documents.get('u1', 'settings')
    expect(document).toEqual(version === 1 ? undefined : Buffer.from([1]))
  })

  test('tables of a newer version are refused with both versions, and unchanged', async () => {
    await using schema = await restore('tables-v1.sql.gz')
    await runSql('UPDATE slipway_schema SET version = 999', schema.url)
    const before = await readTables(schema)
    const words = `The database has version 999 of the tables, and this server knows ${migrations.length}: start the newer server`
    await expect(openPostgresStorage({ url: schema.url })).rejects.toThrow(words)
    await expect(openPostgresControlPlaneStore({ url: schema.url })).rejects.toThrow(words)
    expect(await readTables(schema)).toEqual(before)
  })

  test('a migration that fails, or is cut at any change of a table, leaves the tables as they were', async () => {
    await using schema = await restore('tables-v1.sql.gz')
    await using proxy = await DatabaseProxy.open(schema.url)
    const before = await readTables(schema)
    const open = async () =>
      await (await openPostgresStorage({ url: proxy.url(20_000) }))[Symbol.asyncDispose]()
    const trace = new Trace()
    {
      await using other = await restore('tables-v1.sql.gz')
      await using traced = await DatabaseProxy.open(other.url)
      traced.plan = trace
      await (await openPostgresStorage({ url: traced.url(20_000) }))[Symbol.asyncDispose]()
    }
    const last = trace.points.findIndex((sql) => sql.startsWith('UPDATE slipway_schema'))
    const changes = [...trace.points.entries()].filter(
      ([at, sql]) => at <= last && /^\s*(?:ALTER|UPDATE)/.test(sql),
    )
    expect(changes.length).toBeGreaterThan(5)
    for (const [at, sql] of changes)
      for (const fault of ['fail', 'cut'] as const) {
        proxy.plan = new FaultAt(at, fault)
        const refused = expect(open(), `${fault} at ${at}: ${sql}`).rejects
        if (fault === 'fail')
          await refused.toThrow(
            /^The tables of the database could not be migrated from version 1 to \d+: .* They are unchanged: start the version that wrote them/,
          )
        else await refused.toThrow('The database cannot be reached')
        proxy.plan = noFaults
        expect(await readTables(schema), `${fault} at ${at}: ${sql}`).toEqual(before)
      }
    console.log(`migration on PostgreSQL: ${trace.points.length} points, ${changes.length * 2} rounds`)
    await runSql('ALTER TABLE event ADD COLUMN finer text', schema.url)
    await expect(open()).rejects.toThrow(
      /could not be migrated from version 1 to \d+: column "finer" .* already exists\. They are unchanged/,
    )
    await runSql('ALTER TABLE event DROP COLUMN finer', schema.url)
    await open()
    expect(await readTables(schema)).toMatchObject({ version: migrations.length, events: before.events })
  })
})
