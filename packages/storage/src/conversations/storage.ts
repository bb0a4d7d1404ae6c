import type { Deliveries } from '../deliveries/deliveries.ts'
import type { EventLog } from '../event-log/event-log.ts'
import type { ConversationRecords } from './conversation-records.ts'
import type { ImportSession } from './import-session.ts'

/** What must survive a restart. */
export interface Storage extends AsyncDisposable {
  readonly log: EventLog
  readonly conversations: ConversationRecords
  readonly deliveries: Deliveries
  /** Begins an import into a conversation, which is created at `publish` when it is not there. */
  startImport(conversation: string): Promise<ImportSession>
  /** Waits until the text index has everything that is durable now; for tests, benches and a quiet stop. */
  waitUntilIndexed(): Promise<void>
  /** Finishes what was asked for, then closes. */
  [Symbol.asyncDispose](): Promise<void>
}
