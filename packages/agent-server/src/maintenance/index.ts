export { type BackupResult, backUp } from './backup.ts'
export { type RestoreResult, restore, type VerifyResult, verifyBackup } from './restore.ts'
