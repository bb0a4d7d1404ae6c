import { vi } from 'vitest'
import { recordsContract } from '../conversations/conversation-records.contract.ts'
import { unknownCommitContract } from '../conversations/unknown-commit.contract.ts'
import { eventLogContract } from '../event-log/event-log.contract.ts'
import { loseNextCommit } from './testing/lose-next-commit.ts'
import { describePostgres, openSharedTestStorage } from './testing/test-database.ts'

/** Each example of a property opens its own database. */
vi.setConfig({ testTimeout: 300_000 })

describePostgres('storage on PostgreSQL that servers share', () => {
  eventLogContract(openSharedTestStorage)
  recordsContract(openSharedTestStorage)
  unknownCommitContract(openSharedTestStorage, loseNextCommit)
})
