import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { recordsContract } from '../conversations/conversation-records.contract.ts'
import { deliveriesContract } from '../deliveries/deliveries.contract.ts'
import { eventLogContract } from '../event-log/event-log.contract.ts'
import type { OpenStorage } from '../testing/fixtures.ts'
import { openStorage } from './storage.ts'

const open: OpenStorage = async (options = {}) => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-storage-'))
  let storage = await openStorage({ ...options, directory })
  return {
    get storage() {
      return storage
    },
    async reopen() {
      await storage[Symbol.asyncDispose]()
      storage = await openStorage({ ...options, directory })
      return storage
    },
    async [Symbol.asyncDispose]() {
      await storage[Symbol.asyncDispose]()
      rmSync(directory, { recursive: true })
    },
  }
}

eventLogContract(open)
recordsContract(open)
deliveriesContract(open)
