import { documentStoreContract } from '../../documents/document-store.contract.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { openStorage } from '../storage.ts'

documentStoreContract(async () => {
  const directory = temporaryDirectory()
  let storage = await openStorage({ directory: directory.path })
  return {
    documents: storage.documents,
    async reopen() {
      await storage[Symbol.asyncDispose]()
      storage = await openStorage({ directory: directory.path })
      return storage.documents
    },
    async [Symbol.asyncDispose]() {
      await storage[Symbol.asyncDispose]()
      directory[Symbol.dispose]()
    },
  }
})
