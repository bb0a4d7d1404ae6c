import type { Deliveries } from '../deliveries/deliveries.ts'
import type { EventLog } from '../event-log/event-log.ts'
import type { ConversationRecords } from './conversation-records.ts'
import type { ImportSession } from './import-session.ts'
import type { ConversationLeases } from './leases.ts'

/** The durable state of a server. */
export interface Storage extends AsyncDisposable {
  readonly log: EventLog
  readonly conversations: ConversationRecords
  readonly deliveries: Deliveries
  /** Where several servers share the data. */
  readonly leases?: ConversationLeases | undefined
  /** Starts an import into a conversation; `publish` creates it when it is missing. */
  startImport(conversation: string): Promise<ImportSession>
  /** Resolves when the text index has every durable event. For tests, benches and a quiet stop. */
  waitUntilIndexed(): Promise<void>
  /**
   * Resolves when conversations that were removed before are overwritten in the files of this server; in a
   * database, when their rows are deleted.
   */
  overwriteRemoved(): Promise<void>
  /** Drops what is kept to answer faster: later calls read it again. */
  releaseMemory(): void
  /** Finishes pending calls, then closes. */
  [Symbol.asyncDispose](): Promise<void>
}
