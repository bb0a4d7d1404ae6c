import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { recordsContract } from '../conversations/conversation-records.contract.ts'
import { unknownCommitContract } from '../conversations/unknown-commit.contract.ts'
import { deliveriesContract } from '../deliveries/deliveries.contract.ts'
import { eventLogContract } from '../event-log/event-log.contract.ts'
import { momentsContract } from '../event-log/moments.contract.ts'
import type { OpenStorage } from '../testing/fixtures.ts'
import { openStorage } from './storage.ts'
import { loseNextCommit } from './testing/lose-next-commit.ts'

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

test('databases are readable by their user alone, also those of earlier versions', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-storage-'))
  writeFileSync(join(directory, 'log.db'), '', { mode: 0o644 })
  const storage = await openStorage({ directory })
  try {
    await storage.conversations.create({ id: 'x', title: null, tags: {}, status: 'idle' })
    for (const name of ['log.db', 'log.db-wal', 'log.mark'])
      expect([name, statSync(join(directory, name)).mode & 0o777]).toEqual([name, 0o600])
  } finally {
    await storage[Symbol.asyncDispose]()
    rmSync(directory, { recursive: true })
  }
})

eventLogContract(open)
momentsContract(open)
recordsContract(open)
unknownCommitContract(open, loseNextCommit)
deliveriesContract(open)
