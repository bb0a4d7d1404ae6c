import { isPublicKeyText } from '@slipway/shared/signed-log'
import { Cipher, type DocumentStore } from '@slipway/storage'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ExportKey } from './export-key.ts'

test('servers that share documents make one key, sealed, at the first export', async () => {
  using directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const { documents, stored } = sharedDocuments()
  const servers = [await ExportKey.open({ documents, cipher }), await ExportKey.open({ documents, cipher })]
  expect(servers.map((server) => server.publicKey)).toEqual([null, null])
  expect(stored.size).toBe(0)
  const [one, other] = await Promise.all(servers.map((server) => server.get()))
  expect(one).toEqual(other)
  expect([...stored].map(([name, bytes]) => [name, bytes.includes(String(one?.private_key))])).toEqual([
    ['export-key.sealed', false],
  ])
  const later = await ExportKey.open({ documents, cipher })
  expect(later.publicKey).toBe(servers[0]?.publicKey)
  expect(isPublicKeyText(String(later.publicKey))).toBe(true)
})

test('a key that another server makes is seen, and one that cannot be read is never replaced', async () => {
  using directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const { documents, stored } = sharedDocuments()
  const earlier = await ExportKey.open({ documents, cipher })
  await (await ExportKey.open({ documents, cipher })).get()
  await expect.poll(() => earlier.publicKey).not.toBeNull()
  const damaged = Buffer.from('damaged')
  stored.set('export-key.sealed', damaged)
  const key = await ExportKey.open({ documents, cipher })
  expect(key.publicKey).toBeNull()
  await expect(key.get()).rejects.toMatchObject({ code: 'conflict' })
  expect(stored.get('export-key.sealed')).toBe(damaged)
})

/** Documents of a database: every change is one step, whoever makes it. */
function sharedDocuments() {
  const stored = new Map<string, Buffer>()
  const documents: DocumentStore = {
    get: async (_, name) => stored.get(name),
    list: async () => [...stored.keys()],
    async update(_, name, make) {
      const made = make(stored.get(name))
      if (made !== undefined) stored.set(name, made)
    },
  }
  return { documents, stored }
}
