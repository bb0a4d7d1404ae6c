import { constants } from 'node:fs'
import { chmod, copyFile, mkdir, mkdtemp, open, readdir, rename, rm, rmdir, symlink } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { errorCode, makeDirectory, syncDirectory } from '@slipway/shared/fs'
import { assertUntracked } from '@slipway/shared/process'
import { finishRestore, mergeIncrement, verifyLog } from '@slipway/storage/maintenance'
import {
  type BackupEntry,
  type BackupStep,
  digestFile,
  logPath,
  type Manifest,
  readManifest,
  type StoredFile,
  storedPath,
} from './backup-manifest.ts'
import { logName } from './data-files.ts'

export interface RestoreResult {
  readonly data: string
  /** The step that was restored, and when it was made. */
  readonly step: number
  readonly created_at: string
  readonly conversations: number
  readonly events: number
  readonly files: number
}

export interface VerifyResult {
  readonly steps: number
  readonly conversations: number
  readonly events: number
  readonly files: number
  readonly bytes: number
}

/**
 * Writes a data directory from a backup. It appears at its path when it is complete, verified and synced. The
 * log has its own history from then on. Rejects with a plain Error, also when the path has anything.
 *
 * @param number of the step; the newest unless passed.
 */
export async function restore(backup: string, data: string, number?: number): Promise<RestoreResult> {
  const source = resolve(backup)
  const target = resolve(data)
  const manifest = await openBackup(source)
  const step = findStep(manifest, source, number)
  await assertEmpty(target)
  await makeDirectory(dirname(target))
  const draft = await mkdtemp(`${target}.restoring-`)
  try {
    const log = join(draft, logName)
    await buildLog(source, manifest, step, log)
    const { conversations, events } = verifyRestored(log)
    finishRestore(log)
    await chmod(log, 0o600)
    for (const entry of step.entries) await writeEntry(source, draft, entry)
    await syncTree(draft, step.entries)
    for (const entry of step.entries.toReversed())
      if ('folder' in entry) await chmod(join(draft, entry.path), permissions(entry))
    await rmdir(target).catch((error: unknown) => {
      if (errorCode(error) !== 'ENOENT') throw error
    })
    await rename(draft, target)
    await syncDirectory(dirname(target))
    const files = step.entries.filter((entry) => 'sha256' in entry).length
    return { data: target, step: step.number, created_at: step.created_at, conversations, events, files }
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    throw error
  }
}

/**
 * Reads every byte of a backup, and rebuilds and verifies the log of its newest step. Rejects when anything
 * is wrong.
 */
export async function verifyBackup(backup: string): Promise<VerifyResult> {
  const directory = resolve(backup)
  const manifest = await openBackup(directory)
  const files = new Map<string, StoredFile>()
  for (const { number, log, entries } of manifest.steps) {
    files.set(logPath(directory, { number }), log)
    for (const entry of entries) if ('sha256' in entry) files.set(storedPath(directory, entry.sha256), entry)
  }
  for (const [path, file] of files) await assertDigest(path, file)
  const draft = await mkdtemp(join(directory, '.verify-'))
  try {
    const log = join(draft, logName)
    await buildLog(directory, manifest, findStep(manifest, directory), log)
    const { conversations, events } = verifyRestored(log)
    const bytes = [...files.values()].reduce((sum, { size }) => sum + size, 0)
    return { steps: manifest.steps.length, conversations, events, files: files.size, bytes }
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

export interface ListedStep {
  readonly step: number
  readonly created_at: string
  readonly kind: 'full' | 'increment'
  readonly without_secrets: boolean
  /** Of the whole log as it was then. */
  readonly conversations: number
  /** Bytes that the step added to the backup. */
  readonly added_bytes: number
}

/** The steps of a backup, the first one first, by what its manifest says. */
export async function listBackup(backup: string): Promise<readonly ListedStep[]> {
  const { steps } = await openBackup(resolve(backup))
  const known = new Set<string>()
  return steps.map(({ number, created_at, without_secrets, log, entries }) => {
    const files = entries.filter((entry) => 'sha256' in entry)
    const added = files.filter(({ sha256 }) => !known.has(sha256) && known.add(sha256))
    const added_bytes = added.reduce((sum, { size }) => sum + size, log.size)
    const { kind, conversations } = log
    return { step: number, created_at, kind, without_secrets, conversations, added_bytes }
  })
}

async function openBackup(directory: string): Promise<Manifest> {
  await assertUntracked(directory)
  const manifest = await readManifest(directory)
  if (manifest === undefined || manifest.steps.length === 0)
    throw new Error(`${directory} is no backup: it has no backup.json`)
  return manifest
}

function findStep({ steps }: Manifest, directory: string, number?: number): BackupStep {
  const step = number === undefined ? steps.at(-1) : steps.find((step) => step.number === number)
  if (step === undefined)
    throw new Error(`the backup ${directory} has no step ${number}: it has 1 to ${steps.at(-1)?.number}`)
  return step
}

async function assertEmpty(target: string): Promise<void> {
  try {
    const [name] = await readdir(target)
    if (name === undefined) return
    throw new Error(
      `${target} is not empty: it has ${name}. A restore writes a new directory; name another one with --data, or move this one away.`,
    )
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
  }
}

/** The last full log up to the step, and the increments after it. */
async function buildLog(
  directory: string,
  { steps }: Manifest,
  step: BackupStep,
  target: string,
): Promise<void> {
  const upTo = steps.filter(({ number }) => number <= step.number)
  const chain = upTo.slice(upTo.findLastIndex(({ log }) => log.kind === 'full'))
  for (const [index, { number, log }] of chain.entries()) {
    const path = logPath(directory, { number })
    await assertDigest(path, log)
    if (index > 0) mergeIncrement(target, path)
    else await copyFile(path, target, constants.COPYFILE_FICLONE)
  }
}

function verifyRestored(log: string): { conversations: number; events: number } {
  const { damaged, records, problems, conversations, events } = verifyLog(log, { isThorough: true })
  const [event] = damaged
  const problem =
    problems[0] ??
    (event && `event ${event.position} of conversation ${event.conversation} ${event.reason}`) ??
    (records[0] && `the record of conversation ${records[0]} does not match its checksum`)
  if (problem !== undefined)
    throw new Error(`the backup is damaged: ${problem}. Use an earlier step or another backup.`)
  return { conversations, events }
}

async function assertDigest(path: string, { size, sha256 }: StoredFile): Promise<void> {
  const found = await digestFile(path).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') throw new Error(`the backup is damaged: ${path} is missing`)
    throw error
  })
  if (found.size !== size || found.sha256 !== sha256)
    throw new Error(
      `the backup is damaged: ${path} is not what was written. Use an earlier step or another backup.`,
    )
}

async function writeEntry(source: string, root: string, entry: BackupEntry): Promise<void> {
  // A manifest that somebody else wrote must not lead out of the directory.
  if (isAbsolute(entry.path) || entry.path.split(/[\\/]/).includes('..'))
    throw new Error(`the backup is damaged: it names ${JSON.stringify(entry.path)}`)
  const path = join(root, entry.path)
  // Links come last, so that no file is written through one.
  if ('link' in entry) return
  if ('folder' in entry) {
    await mkdir(path, { mode: 0o700 })
    return
  }
  const stored = storedPath(source, entry.sha256)
  await assertDigest(stored, entry)
  await copyFile(stored, path, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  await chmod(path, permissions(entry))
}

/** Without what makes a program run as its owner: somebody else may have written the manifest. */
function permissions({ mode }: BackupEntry): number {
  return mode & 0o777
}

async function syncTree(root: string, entries: readonly BackupEntry[]): Promise<void> {
  for (const entry of entries) if ('link' in entry) await symlink(entry.link, join(root, entry.path))
  for (const entry of entries) if ('folder' in entry) await syncDirectory(join(root, entry.path))
  for (const entry of [{ path: logName, mode: 0, size: 0, sha256: '' }, ...entries]) {
    if (!('sha256' in entry)) continue
    await using file = await open(join(root, entry.path), 'r')
    await file.sync()
  }
  await syncDirectory(root)
}
