export type {
  AppendOptions,
  EventDraft,
  EventLog,
  EventPage,
  EventQuery,
  ReceivedEvent,
  StoredEvent,
} from './event-log.ts'
export type { Import } from './import.ts'
export type { ConversationQuery, ConversationRecord, ConversationSort, Records } from './records.ts'
export type { Storage } from './storage.ts'
