import { basename, dirname, join } from 'node:path'
import { type DocumentStore, documentEncoding, FileDocumentStore } from '@slipway/storage'

/** Documents as files of their names: for tests that write them by hand, or open a store again. */
export function fileDocuments(directory: string): DocumentStore {
  const stores = new Map<string, FileDocumentStore>()
  const storeOf = (name: string) => {
    const key = `${dirname(name)} ${documentEncoding(name)}`
    const store =
      stores.get(key) ??
      new FileDocumentStore({ directory: join(directory, dirname(name)), encoding: documentEncoding(name) })
    stores.set(key, store)
    return store
  }
  return {
    get: (owner, name) => storeOf(name).get(owner, basename(name)),
    update: (owner, name, make) => storeOf(name).update(owner, basename(name), make),
    async list(owner) {
      const profiles = await storeOf('profiles/*.json').list(owner)
      return [...(await storeOf('*.json').list(owner)), ...profiles.map((name) => `profiles/${name}`)]
    },
  }
}
