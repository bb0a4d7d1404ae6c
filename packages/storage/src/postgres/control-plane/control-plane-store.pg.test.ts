import pg from 'pg'
import { afterAll, expect, test, vi } from 'vitest'
import { controlPlaneStoreContract } from '../../control-plane/control-plane-store.contract.ts'
import { tableDefinitions } from '../../control-plane/stores/tables.ts'
import type { OpenStore } from '../../control-plane/testing/sample-rows.ts'
import { controlPlaneTables } from '../database/control-plane-tables.ts'
import { createTestSchema, describePostgres, runSql, type TestSchema } from '../testing/test-database.ts'
import { openPostgresControlPlaneStore } from './control-plane-store.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 60_000 })

const first = [...controlPlaneTables.matchAll(/CREATE TABLE (\w+)/g)].map(([, name]) => name)
const tables = [...new Set([...first, ...tableDefinitions.map(({ postgres }) => postgres)])]
/** Schemas whose tables are empty: the examples of a property would create hundreds. */
const empty: TestSchema[] = []

const open: OpenStore = async (options = {}) => {
  const schema = empty.pop() ?? (await createTestSchema())
  let store = await openPostgresControlPlaneStore({ ...options, url: schema.url })
  return {
    get store() {
      return store
    },
    async reopen() {
      await store[Symbol.asyncDispose]()
      store = await openPostgresControlPlaneStore({ ...options, url: schema.url })
      return store
    },
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]()
      await runSql(tables.map((table) => `DELETE FROM ${table}`).join('; '), schema.url)
      empty.push(schema)
    },
  }
}

describePostgres('control plane on PostgreSQL', () => {
  afterAll(async () => {
    for (const schema of empty) await schema[Symbol.asyncDispose]()
  })
  controlPlaneStoreContract(open)

  test('a change of a document that another connection has locked is refused as retryable, and reads do not wait', async () => {
    await using schema = await createTestSchema()
    await using store = await openPostgresControlPlaneStore({ url: schema.url })
    const { documents } = store
    const save = (text: string) => documents.update('user', 'profiles', () => Buffer.from(text))
    await save('first')
    const other = new pg.Client({ connectionString: schema.url })
    await other.connect()
    try {
      await other.query('BEGIN')
      await other.query('SELECT 1 FROM document FOR UPDATE')
      let isRefused = false
      const refused = save('second').catch((error: unknown) => {
        isRefused = true
        return error
      })
      expect((await documents.get('user', 'profiles'))?.toString()).toBe('first')
      expect(isRefused).toBe(false)
      expect(await refused).toMatchObject({ code: 'unavailable', retryAfterSeconds: 2 })
      expect((await documents.get('user', 'profiles'))?.toString()).toBe('first')
      await other.query('ROLLBACK')
      await save('second')
      expect((await documents.get('user', 'profiles'))?.toString()).toBe('second')
    } finally {
      await other.end()
    }
  })
})
