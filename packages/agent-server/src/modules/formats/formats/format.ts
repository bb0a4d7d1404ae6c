import type { SigningKey } from '@slipway/shared/signed-log'
import type { ConversationRecord, EventLog, StoredEvent } from '@slipway/storage'
import type { ConversationInfoReader } from '../../../core/conversations/conversation-info.ts'

/** What is exported, and what a format may use. */
export interface ExportSource {
  readonly log: EventLog
  readonly record: ConversationRecord
  /** Its events in order, in batches of bounded size. */
  readonly batches: AsyncIterable<readonly StoredEvent[]>
  /** Put a line with id, title and tags in front. */
  readonly meta: boolean
  readonly infoReader: Pick<ConversationInfoReader, 'readInfo' | 'readArchivedState'>
  readonly signingKey: () => Promise<SigningKey>
}

/** The chunks of a file. Memory is bounded: events are written as they are read. */
export type WriteFormat = (source: ExportSource) => AsyncIterable<Buffer>
