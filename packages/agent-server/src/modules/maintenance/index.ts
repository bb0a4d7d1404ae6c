import { findSettingsFault, readSettings, settingRows } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import { readConfig } from '../../core/config/config.ts'
import { settings } from '../../core/config/settings.ts'
import { listDocumentFiles } from '../../core/documents/configured-documents.ts'

export {
  DirectoryInUseError,
  documentEncoding,
  documentNames,
  isDocumentName,
  parseDocument,
} from '@slipway/storage'
export { acceptLog, migrate, openDocuments, readStoredDocument } from '@slipway/storage/maintenance'
export { type BackupResult, backUp } from './backup.ts'
export { type CompactedDatabase, compact, type DiskUsage, measureUsage } from './disk-usage.ts'
export { examine, type Finding, type FindingLevel, repair } from './doctor.ts'
export { examineRepository } from './repository.ts'
export {
  type ListedStep,
  listBackup,
  type RestoreResult,
  restore,
  type VerifyResult,
  verifyBackup,
} from './restore.ts'
/** The variables that the agent server reads. */
export const agentServerSettings: readonly string[] = settingRows(settings).map(({ name }) => name)

/** The files that set documents of servers with these variables, by their documents. */
export async function readDocumentFiles(
  env: Readonly<Record<string, string | undefined>>,
): Promise<ReadonlyMap<string, string>> {
  const { directory } = readSettings({ directory: settings.documentsDirectory }, env)
  const files = directory === undefined ? [] : await listDocumentFiles(directory)
  return new Map(files.flatMap(({ name, path }) => (name === undefined ? [] : [[name, path]])))
}

/** The key that seals what servers with these variables store. */
export function readSecretKey(env: Readonly<Record<string, string | undefined>>): Secret | undefined {
  return readSettings({ secretKey: settings.secretKey }, env).secretKey
}

/** What is wrong with the values of these variables; never shows a value. */
export function checkAgentServerSettings(
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  return findSettingsFault(readConfig, env)
}
