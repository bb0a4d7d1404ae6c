export type {
  ApiKeyRow,
  AppConversationFilter,
  AppConversationRow,
  AppConversationRows,
  ControlPlaneStore,
  DesiredState,
  DocumentStore,
  OrgRow,
  PageQuery,
  PendingMessageRow,
  PendingMessageRows,
  QuotaRows,
  RowPage,
  RowSort,
  SandboxRow,
  SandboxRows,
  Scope,
  StartTaskRow,
  StartTaskRows,
  UserRow,
  UserRows,
} from './control-plane/control-plane-store.ts'
export type {
  ConversationQuery,
  ConversationRecord,
  ConversationRecords,
  ConversationSort,
  SealedState,
  Snapshot,
  TagFilter,
} from './conversations/conversation-records.ts'
export { exportEvents, gzipStream } from './conversations/export.ts'
export type { ImportSession } from './conversations/import-session.ts'
export type { Storage } from './conversations/storage.ts'
export { zipConversation } from './conversations/zip.ts'
export { Cipher } from './crypto/cipher.ts'
export type { Deliveries, PendingDelivery } from './deliveries/deliveries.ts'
export {
  type AppendOptions,
  type EventDraft,
  type EventLog,
  type EventPage,
  type EventQuery,
  isReceivedEvent,
  type PagedEvent,
  type ReceivedEvent,
  type StoredEvent,
} from './event-log/event-log.ts'
export { eventListBytes, pageBytes } from './event-log/page-bytes.ts'
export {
  eventIssues,
  parseEventLine,
  readExecutionStatus,
  toReceivedEvent,
} from './event-log/received-event.ts'
export {
  type ControlPlaneStoreOptions,
  openControlPlaneStore,
} from './sqlite/control-plane/control-plane-store.ts'
export { openStorage, type SqliteStorage, type StorageOptions } from './sqlite/storage.ts'
