import { Problem } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { documentStoreContract } from '../../documents/document-store.contract.ts'
import { JsonDocument } from '../../documents/json-document.ts'
import { openPostgresStorage } from '../storage.ts'
import { createTestSchema, describePostgres, runSql } from '../testing/test-database.ts'

describePostgres('documents on PostgreSQL', () => {
  documentStoreContract(async () => {
    const schema = await createTestSchema()
    let storage = await openPostgresStorage({ url: schema.url })
    return {
      documents: storage.documents,
      async reopen() {
        await storage[Symbol.asyncDispose]()
        storage = await openPostgresStorage({ url: schema.url })
        return storage.documents
      },
      async [Symbol.asyncDispose]() {
        await storage[Symbol.asyncDispose]()
        await schema[Symbol.asyncDispose]()
      },
    }
  })

  test('servers that share a database lose no update of each other, and see each one', async () => {
    await using schema = await createTestSchema()
    const open = () => openPostgresStorage({ url: schema.url, leaseMs: 30_000 })
    await using one = await open()
    await using other = await open()
    const documents = [one, other].map(
      ({ documents }) =>
        new JsonDocument<readonly number[]>({
          store: documents,
          name: 'numbers',
          empty: [],
          parse: (value) => value as number[],
          unreadable: () => new Problem('conflict', 'unreadable'),
        }),
    )
    const numbers = Array.from({ length: 20 }, (_, number) => number)
    await Promise.all(numbers.map((number) => documents[number % 2]?.update((value) => [...value, number])))
    for (const document of documents)
      expect((await document.read()).toSorted((a, b) => a - b)).toEqual(numbers)
  })

  test('a server whose database was taken over changes no document', async () => {
    await using schema = await createTestSchema()
    await using storage = await openPostgresStorage({ url: schema.url })
    await storage.documents.update('', 'd', () => Buffer.from('1'))
    await runSql('UPDATE owner SET epoch = epoch + 1', schema.url)
    await expect(storage.documents.update('', 'd', () => Buffer.from('2'))).rejects.toThrow(
      'Another server has taken over the database',
    )
    expect(String(await storage.documents.get('', 'd'))).toBe('1')
  })
})
