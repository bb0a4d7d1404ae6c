/** What is done to the databases of a data directory besides serving it. */

export { type MigrateResult, migrate } from './migrate/migrate.ts'
export { type OpenedDocuments, openDocuments } from './migrate/open-documents.ts'
export { type AcceptedLog, acceptLog } from './sqlite/accept-log.ts'
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
export { readStoredDocument } from './sqlite/maintenance/read-document.ts'
export { repairLog } from './sqlite/maintenance/repair-log.ts'
export { type DamagedEvent, type LogReport, verifyLog } from './sqlite/maintenance/verify-log.ts'
