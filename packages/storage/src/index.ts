export type {
  ApiKeyRow,
  AppConversationFilter,
  AppConversationRow,
  AppConversationRows,
  DocumentRows,
  Ledger,
  OrgRow,
  PageQuery,
  PendingMessageRow,
  PendingMessageRows,
  PeopleRows,
  QuotaRows,
  RowPage,
  RowSort,
  SandboxRow,
  SandboxRows,
  Scope,
  StartTaskRow,
  StartTaskRows,
  UserRow,
  Wanted,
} from './control-plane/control-plane-store.ts'
export type {
  ConversationQuery,
  ConversationRecord,
  ConversationSort,
  Records,
  Snapshot,
  TagFilter,
  Vault,
} from './conversations/conversation-records.ts'
export { exportEvents, gzipped } from './conversations/export.ts'
export type { Import } from './conversations/import-session.ts'
export type { Storage } from './conversations/storage.ts'
export { zippedConversation } from './conversations/zip.ts'
export { Cipher } from './crypto/cipher.ts'
export type { Behind, Deliveries } from './deliveries/deliveries.ts'
export {
  type AppendOptions,
  type EventDraft,
  type EventLog,
  type EventPage,
  type EventQuery,
  isReceived,
  type PagedEvent,
  type ReceivedEvent,
  type StoredEvent,
} from './event-log/event-log.ts'
export { listBytes, pageBytes } from './event-log/page-bytes.ts'
export { eventFaults, parseLine, received, statedStatus } from './event-log/received-event.ts'
export { codeOf, syncDirectory, writeFileDurably } from './fs/write-file-atomic.ts'
export { type LedgerOptions, openLedger } from './sqlite/control-plane/control-plane-store.ts'
export { openStorage, type SqliteStorage, type StorageOptions } from './sqlite/storage.ts'
