import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { readdir, readlink, rename, rm } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { errorCode, exists, isWithin, makeDirectory, syncDirectory } from '@slipway/shared/fs'
import { assertUntracked } from '@slipway/shared/process'
import { errorText } from '@slipway/shared/text'
import { DirectoryLock, lockName } from '@slipway/storage'
import { copyDatabase, verifyLog, writeFullBackup, writeIncrement } from '@slipway/storage/maintenance'
import {
  type BackupEntry,
  type BackupStep,
  digestFile,
  logPath,
  readManifest,
  type StoredFile,
  storedPath,
  writeManifest,
} from './backup-manifest.ts'
import { type DataFile, databaseNames, listDataFiles, logName } from './data-files.ts'

interface BackupOptions {
  /** The data directory; a server may use it meanwhile. */
  readonly data: string
  /** A directory that does not exist, is empty, or has a backup of this data directory. */
  readonly target: string
  /** Leave out keys, sealed files and documents, and the secrets of conversations. */
  readonly isWithoutSecrets: boolean
  /** Copy the whole log although the backup has a step before. */
  readonly isFull: boolean
}

export interface BackupResult {
  readonly step: number
  readonly kind: 'full' | 'increment'
  readonly conversations: number
  /** Events that this step has added. */
  readonly events: number
  readonly files: number
  /** Bytes that this step has added. */
  readonly added_bytes: number
  /** Files that could not be read, as texts. */
  readonly skipped: readonly string[]
}

const secretFile = /^(?:secret\.key|session\.key|admin\.key|.*\.sealed(?:\.(?:not-)?imported(?:-\d+)?)?)$/

/**
 * Adds a step to a backup: the events since the step before, and the other files as they are. Each database
 * is as it was at one moment. A step is complete, verified and synced when the manifest names it; what a
 * killed backup left is removed by the next one. Rejects with a plain Error.
 */
export async function backUp(options: BackupOptions): Promise<BackupResult> {
  const data = resolve(options.data)
  const target = resolve(options.target)
  if (!(await exists(join(data, logName))))
    throw new Error(`${data} is no data directory: it has no ${logName}. Name it with --data.`)
  if (isWithin(data, target)) throw new Error(`the backup cannot be inside of the data directory ${data}`)
  await assertUntracked(data)
  await makeDirectory(target, 0o700)
  const manifest = (await readManifest(target)) ?? { format: 1, steps: [] }
  if (manifest.steps.length === 0) await assertEmpty(target)
  using _ = await DirectoryLock.acquire(target)
  await removeUnfinished(target, manifest.steps)
  await makeDirectory(join(target, 'files'), 0o700)
  const previous = manifest.steps.at(-1)
  if (previous !== undefined && previous.without_secrets !== options.isWithoutSecrets)
    throw new Error(
      `the backup in ${target} was made ${previous.without_secrets ? 'without' : 'with'} secrets. Back up into another directory.`,
    )
  const number = (previous?.number ?? 0) + 1
  const log = await writeLog({ ...options, data, target, number, previous })
  const files = await new FileStore(target).add(data, options.isWithoutSecrets)
  const step: BackupStep = {
    number,
    created_at: new Date().toISOString(),
    without_secrets: options.isWithoutSecrets,
    log,
    entries: files.entries,
  }
  await syncDirectory(join(target, 'files'))
  await syncDirectory(target)
  await writeManifest(target, { format: 1, steps: [...manifest.steps, step] })
  return {
    step: number,
    kind: log.kind,
    conversations: log.conversations,
    events: log.events,
    files: files.entries.filter((entry) => 'sha256' in entry).length,
    added_bytes: log.size + files.addedBytes,
    skipped: files.skipped,
  }
}

async function assertEmpty(target: string): Promise<void> {
  const other = (await readdir(target)).find((name) => name !== lockName)
  if (other !== undefined)
    throw new Error(`${target} is neither empty nor a backup: it has ${other}. Choose another directory.`)
}

async function writeLog(
  options: BackupOptions & { readonly number: number; readonly previous: BackupStep | undefined },
): Promise<BackupStep['log']> {
  const { data, target: directory, isWithoutSecrets, isFull, number, previous } = options
  const source = join(data, logName)
  const target = logPath(directory, { number })
  const paths = { source, target, isWithoutSecrets }
  const increment =
    previous === undefined || isFull
      ? undefined
      : writeIncrement({ ...paths, previous: logPath(directory, previous) })
  const log = increment ?? writeFullBackup(paths)
  const { damaged, records, problems } = verifyLog(target, { isPartial: log.kind === 'increment' })
  if (problems[0] !== undefined)
    throw new Error(`${source} is damaged: ${problems[0]}. See "slipway doctor --deep".`)
  const [first] = damaged
  if (first !== undefined)
    throw new Error(
      `event ${first.position} of conversation ${first.conversation} ${first.reason}: a damaged log is not backed up. See "slipway doctor --deep".`,
    )
  if (records[0] !== undefined)
    throw new Error(
      `the record of conversation ${records[0]} does not match its checksum: a damaged log is not backed up. See "slipway doctor --deep".`,
    )
  return { ...log, ...(await digestFile(target)) }
}

/** Logs and files that no step of the manifest has. */
async function removeUnfinished(target: string, steps: readonly BackupStep[]): Promise<void> {
  const logs = new Set(steps.map((step) => basename(logPath(target, step))))
  for (const name of await readdir(target))
    if (/^log-\d+\.db/.test(name) && !logs.has(name)) await rm(join(target, name))
  const used = new Set(
    steps.flatMap(({ entries }) => entries.flatMap((entry) => ('sha256' in entry ? [entry.sha256] : []))),
  )
  const files = join(target, 'files')
  if (!(await exists(files))) return
  for (const name of await readdir(files)) if (!used.has(name)) await rm(join(files, name))
}

/** The files of a backup, each once. */
class FileStore {
  readonly entries: BackupEntry[] = []
  readonly skipped: string[] = []
  addedBytes = 0
  readonly #target: string

  constructor(target: string) {
    this.#target = target
  }

  async add(data: string, isWithoutSecrets: boolean): Promise<this> {
    for await (const file of listDataFiles(data)) {
      if (file.path === logName || (isWithoutSecrets && secretFile.test(basename(file.path)))) continue
      try {
        const entry = await this.#entry(data, file)
        if (entry !== undefined)
          this.entries.push({ ...entry, mode: file.stats.mode & 0o777, path: file.path })
      } catch (error) {
        if (errorCode(error) === 'ENOENT') continue
        this.skipped.push(`${file.path}: ${errorText(error)}`)
      }
    }
    return this
  }

  async #entry(data: string, { path, stats }: DataFile) {
    const source = join(data, path)
    if (stats.isDirectory()) return { folder: true as const }
    if (stats.isSymbolicLink()) return { link: await readlink(source) }
    if (!stats.isFile()) return undefined
    const draft = join(this.#target, 'files', `.${randomUUID()}`)
    try {
      const isDatabase = databaseNames.has(basename(path))
      const stored = isDatabase ? await this.#copyDatabase(source, draft) : await copyFile(source, draft)
      const target = storedPath(this.#target, stored.sha256)
      if (!(await exists(target))) {
        await rename(draft, target)
        this.addedBytes += stored.size
      }
      return stored
    } finally {
      await rm(draft, { force: true })
    }
  }

  async #copyDatabase(source: string, draft: string): Promise<StoredFile> {
    copyDatabase(source, draft)
    return await digestFile(draft)
  }
}

/** The copy is synced, and its digest that of what was written. */
async function copyFile(source: string, target: string): Promise<StoredFile> {
  const hash = createHash('sha256')
  let size = 0
  await pipeline(
    createReadStream(source),
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        hash.update(chunk)
        size += chunk.length
        yield chunk
      }
    },
    createWriteStream(target, { mode: 0o600, flags: 'wx', flush: true }),
  )
  return { size, sha256: hash.digest('hex') }
}
