import { expect, test } from 'vitest'
import type { DocumentStore } from './document-store.ts'

/** A fresh store for one test. `reopen` closes it and opens it again. */
interface OpenedDocuments extends AsyncDisposable {
  readonly documents: DocumentStore
  reopen(): Promise<DocumentStore>
}

export function documentStoreContract(open: () => Promise<OpenedDocuments>): void {
  test('updates of a document are serialized, survive the store, and can remove it', async () => {
    await using fixture = await open()
    const { documents } = fixture
    const add = (old: Buffer | undefined) => Buffer.from([...(old ?? []), (old?.length ?? 0) + 1])
    await Promise.all(Array.from({ length: 20 }, () => documents.update('u', 'd', add)))
    const reopened = await fixture.reopen()
    expect(await reopened.get('u', 'd')).toEqual(Buffer.from(Array.from({ length: 20 }, (_, i) => i + 1)))
    await reopened.update('u', 'd', () => undefined)
    await reopened.update('u', 'd', (old) => {
      expect(old).toBeUndefined()
      return Buffer.alloc(0)
    })
    expect(await reopened.get('u', 'd')).toEqual(Buffer.alloc(0))
  })

  test('an unchanged document is the same Buffer again, also when an update leaves it', async () => {
    await using fixture = await open()
    const { documents } = fixture
    await documents.update('u', 'd', () => Buffer.from('1'))
    const first = await documents.get('u', 'd')
    await documents.update('u', 'd', (old) => {
      expect(old).toBe(first)
      return old
    })
    expect(await documents.get('u', 'd')).toBe(first)
  })

  test('owners and names are separate, for any name of an owner', async () => {
    await using fixture = await open()
    const { documents } = fixture
    const owners = ['', 'u', '..', 'a/b', '.']
    for (const owner of owners) await documents.update(owner, 'd', () => Buffer.from(owner))
    for (const owner of owners) {
      expect(String(await documents.get(owner, 'd'))).toBe(owner)
      expect(await documents.get(owner, 'e')).toBeUndefined()
    }
    expect(await documents.get('v', 'd')).toBeUndefined()
    await documents.update('u', 'b', () => Buffer.from('b'))
    expect([...(await documents.list('u'))].sort()).toEqual(['b', 'd'])
    expect(await documents.list('v')).toEqual([])
  })

  test('an update that throws rejects, changes nothing and does not stop the next one', async () => {
    await using fixture = await open()
    const { documents } = fixture
    const first = documents.update('u', 'd', () => Buffer.from('1'))
    const failed = documents.update('u', 'd', () => {
      throw new Error('on purpose')
    })
    const last = documents.update('u', 'd', (old) => Buffer.from(`${old}2`))
    await expect(failed).rejects.toThrow('on purpose')
    await Promise.all([first, last])
    expect(String(await documents.get('u', 'd'))).toBe('12')
  })
}
