import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { controlPlaneStoreContract } from '../../control-plane/control-plane-store.contract.ts'
import { SandboxStore } from '../../control-plane/stores/sandboxes.ts'
import { type OpenStore, sandboxRow } from '../../control-plane/testing/sample-rows.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { CommitQueue } from '../database/commit-queue.ts'
import { Database } from '../database/database.ts'
import { StorageHealth } from '../database/storage-health.ts'
import { openStorage } from '../storage.ts'
import { ChangeQueue } from './change-queue.ts'
import { openControlPlaneStore } from './control-plane-store.ts'
import { controlPlaneMigrations } from './schema.ts'
import { SqliteSession } from './session.ts'

const open: OpenStore = async (options = {}) => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-control-plane-'))
  let store = await openControlPlaneStore({ ...options, directory })
  return {
    get store() {
      return store
    },
    async reopen() {
      await store[Symbol.asyncDispose]()
      store = await openControlPlaneStore({ ...options, directory })
      return store
    },
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]()
      rmSync(directory, { recursive: true })
    },
  }
}

controlPlaneStoreContract(open)

const settings = { synchronous: 'FULL', cacheBytes: 1_000_000, migrations: controlPlaneMigrations } as const

test('a control-plane store and a storage share a directory, each open once', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'deeper')
  await using storage = await openStorage({ directory: path })
  await using store = await openControlPlaneStore({ directory: path })
  await expect(openControlPlaneStore({ directory: path })).rejects.toThrow('in use by another process')
  expect(statSync(path).mode & 0o777).toBe(0o700)
  await storage.conversations.create({ id: '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e' })
  await store.sandboxes.add(sandboxRow({ id: 'a' }))
})

test('queued changes are written before closing, later ones rejected', async () => {
  using directory = temporaryDirectory()
  const store = await openControlPlaneStore({ directory: directory.path })
  const added = store.sandboxes.add(sandboxRow({ id: 'a' }))
  await store[Symbol.asyncDispose]()
  expect(await added).toBe('added')
  await expect(store.sandboxes.add(sandboxRow({ id: 'b' }))).rejects.toMatchObject({ code: 'unavailable' })
  await using again = await openControlPlaneStore({ directory: directory.path })
  expect(await Array.fromAsync(again.sandboxes.iterateAll())).toEqual([sandboxRow({ id: 'a' })])
})

test('on a full disk a change is refused as a whole, and what fits is written later', async () => {
  using directory = temporaryDirectory()
  const db = new Database(join(directory.path, 'control.db'), settings)
  const changes = new ChangeQueue(
    db,
    new CommitQueue(db, 'ledger', new StorageHealth(dirname(db.path), () => {}).add(db)),
  )
  const sandboxes = new SandboxStore(new SqliteSession(db, changes), () => 5)
  await sandboxes.add(sandboxRow({ id: 'a' }))
  db.pragma(`max_page_count = ${Number(db.pragma('page_count')) + 2}`)
  const large = sandboxRow({ id: 'b', sealed: Buffer.alloc(100_000) })
  const group = [sandboxes.update('a', { used_at: 9 }), sandboxes.add(large), sandboxes.remove('a')]
  for (const change of group) await expect(change).rejects.toMatchObject({ code: 'storage_full' })
  expect(await sandboxes.get(['a', 'b'])).toEqual([sandboxRow({ id: 'a' }), undefined])
  db.pragma('max_page_count = 100000')
  expect(await sandboxes.add(large)).toBe('added')
  await changes.close()
  db.close()
})

test('the space of deleted documents comes back while the store is used', async () => {
  using directory = temporaryDirectory()
  await using store = await openControlPlaneStore({ directory: directory.path, reclaimIntervalMs: 20 })
  const names = Array.from({ length: 40 }, (_, index) => `d${index}`)
  for (const name of names) await store.documents.update('u', name, () => randomBytes(200_000))
  const sizeBytes = () => statSync(join(directory.path, 'control.db')).size
  await expect.poll(sizeBytes, { timeout: 10_000 }).toBeGreaterThan(4_000_000)
  for (const name of names.slice(1)) await store.documents.update('u', name, () => undefined)
  await expect.poll(sizeBytes, { timeout: 10_000 }).toBeLessThan(2_000_000)
  expect((await store.documents.get('u', 'd0'))?.length).toBe(200_000)
})

test('the open file has the durability settings, and a newer version is refused', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'control.db')
  const db = new Database(path, settings)
  expect([db.pragma('journal_mode'), db.pragma('synchronous')]).toEqual(['wal', 2])
  db.close()
  const later = [...controlPlaneMigrations, 'CREATE TABLE later (x INTEGER) STRICT']
  new Database(path, { ...settings, migrations: later }).close()
  await expect(openControlPlaneStore({ directory: directory.path })).rejects.toThrow('newer version')
  await expect(openControlPlaneStore({ directory: directory.path })).rejects.toThrow('newer version')
})
