export { Cipher } from './cipher.ts'
export type { Behind, Deliveries } from './deliveries.ts'
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
} from './event-log.ts'
export { exportEvents, gzipped } from './export.ts'
export type { Import } from './import.ts'
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
} from './ledger.ts'
export { listBytes, pageBytes } from './pages.ts'
export { eventFaults, parseLine, received, statedStatus } from './received.ts'
export type {
  ConversationQuery,
  ConversationRecord,
  ConversationSort,
  Records,
  Snapshot,
  TagFilter,
  Vault,
} from './records.ts'
export { type LedgerOptions, openLedger } from './sqlite/ledger/ledger.ts'
export { openStorage, type SqliteStorage, type StorageOptions } from './sqlite/storage.ts'
export type { Storage } from './storage.ts'
export { codeOf, syncDirectory, writeFileDurably } from './write-file.ts'
export { zippedConversation } from './zip.ts'
