import { vi } from 'vitest'
import { recordsContract } from '../conversations/conversation-records.contract.ts'
import { unknownCommitContract } from '../conversations/unknown-commit.contract.ts'
import { deliveriesContract } from '../deliveries/deliveries.contract.ts'
import { eventLogContract } from '../event-log/event-log.contract.ts'
import { momentsContract } from '../event-log/moments.contract.ts'
import { loseNextCommit } from './testing/lose-next-commit.ts'
import { describePostgres, openTestStorage } from './testing/test-database.ts'

/** Each example of a property opens its own database. */
vi.setConfig({ testTimeout: 300_000 })

describePostgres('storage on PostgreSQL', () => {
  eventLogContract(openTestStorage)
  momentsContract(openTestStorage)
  recordsContract(openTestStorage)
  unknownCommitContract(openTestStorage, loseNextCommit)
  deliveriesContract(openTestStorage)
})
