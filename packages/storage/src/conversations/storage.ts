import type { Deliveries } from '../deliveries/deliveries.ts'
import type { EventLog } from '../event-log/event-log.ts'
import type { Records } from './conversation-records.ts'
import type { Import } from './import-session.ts'

/** What must survive a restart. */
export interface Storage extends AsyncDisposable {
  readonly log: EventLog
  readonly conversations: Records
  readonly deliveries: Deliveries
  /** Begins an import into a conversation, which is created at `publish` when it is not there. */
  startImport(conversation: string): Promise<Import>
  /** Waits until the text index has everything that is durable now; for tests, benches and a quiet stop. */
  indexed(): Promise<void>
  /** Finishes what was asked for, then closes. */
  [Symbol.asyncDispose](): Promise<void>
}
