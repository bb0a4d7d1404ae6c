export type * from './bash-events/bash-events.ts'
export type {
  AppConversationFilter,
  AppConversationQuery,
  AppConversationRow,
  AppConversationRows,
} from './control-plane/app-conversations.ts'
export type { ControlPlaneStore, PendingMessageRow, QuotaRows } from './control-plane/control-plane-store.ts'
export { ownedBy } from './control-plane/owned-by.ts'
export type { PageQuery, RowPage, Scope } from './control-plane/rows.ts'
export type { SandboxRow, SandboxRows } from './control-plane/sandboxes.ts'
export type { StartTaskRow, StartTaskRows } from './control-plane/start-tasks.ts'
export type { ApiKeyRow, OrgRow, UserLimits, UserRow, UserRows } from './control-plane/users.ts'
export type * from './conversations/conversation-records.ts'
export { exportEvents, gzipStream } from './conversations/export.ts'
export type { ImportSession } from './conversations/import-session.ts'
export type { Storage } from './conversations/storage.ts'
export { zipConversation } from './conversations/zip.ts'
export { Cipher } from './crypto/cipher.ts'
export type { Deliveries, PendingDelivery } from './deliveries/deliveries.ts'
export type { DocumentStore } from './documents/document-store.ts'
export { FileDocumentStore } from './documents/file-document-store.ts'
export { JsonDocument } from './documents/json-document.ts'
export { NamedSecrets, secretsFormat } from './documents/named-secrets.ts'
export { checkCursor, cursorAt, encodeCursor } from './event-log/cursor.ts'
export * from './event-log/event-log.ts'
export { eventListBytes, pageBytes } from './event-log/page-bytes.ts'
export * from './event-log/received-event.ts'
export { type DatabaseLocation, openServerStorage, type ServerStorage } from './open-server-storage.ts'
export { createPageIdCodec, unknownPageId } from './paging/page-id-codec.ts'
export { type AcceptedLog, acceptLog } from './sqlite/accept-log.ts'
export { openBashEvents } from './sqlite/bash-events/bash-events.ts'
export { openControlPlaneStore } from './sqlite/control-plane/control-plane-store.ts'
export { DirectoryLock } from './sqlite/database/directory-lock.ts'
export type { StorageHealth } from './sqlite/database/storage-health.ts'
export { compactDatabase } from './sqlite/maintenance/compact.ts'
export {
  inspectDatabase,
  inspectIndex,
  inspectMark,
  type LogUsage,
  readUsage,
} from './sqlite/maintenance/inspect.ts'
export {
  finishRestore,
  type LogStep,
  mergeIncrement,
  writeFullBackup,
  writeIncrement,
} from './sqlite/maintenance/log-backup.ts'
export { copyDatabase } from './sqlite/maintenance/open-file.ts'
export { repairLog } from './sqlite/maintenance/repair-log.ts'
export { type DamagedEvent, type LogReport, verifyLog } from './sqlite/maintenance/verify-log.ts'
export { openStorage, type SqliteStorage } from './sqlite/storage.ts'
