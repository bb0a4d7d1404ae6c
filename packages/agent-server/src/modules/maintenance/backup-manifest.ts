import { createHash, type Hash, hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, writeFileAtomic } from '@slipway/shared/fs'
import { asRecord, parseJson } from '@slipway/shared/json'
import type { LogStep } from '@slipway/storage/maintenance'

/**
 * The directory of a backup: `backup.json`, which is replaced when a step is complete; the logs of its steps;
 * and `files`, which has each file once, named by the SHA-256 of its bytes.
 */
export interface Manifest {
  readonly format: 1
  readonly steps: readonly BackupStep[]
}

export interface BackupStep {
  readonly number: number
  readonly created_at: string
  readonly without_secrets: boolean
  readonly log: LogStep & StoredFile
  readonly entries: readonly BackupEntry[]
}

export interface StoredFile {
  readonly size: number
  readonly sha256: string
}

/** A folder, a symbolic link or a file of the data directory. */
export type BackupEntry = { readonly path: string; readonly mode: number } & (
  | { readonly folder: true }
  | { readonly link: string }
  | StoredFile
)

const manifestName = 'backup.json'
const format = 1

/** Undefined without one. Throws an Error for one that cannot be read. */
export async function readManifest(directory: string): Promise<Manifest | undefined> {
  const path = join(directory, manifestName)
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  const { manifest, sha256 } = asRecord(parseJson(text))
  if (manifest === undefined || sha256 !== hash('sha256', JSON.stringify(manifest)))
    throw new Error(`${path} is damaged`)
  const value = manifest as Manifest
  if (value.format !== format) throw new Error(`${path} was written by a newer version`)
  return value
}

export async function writeManifest(directory: string, manifest: Manifest): Promise<void> {
  const text = JSON.stringify(manifest)
  await writeFileAtomic(
    join(directory, manifestName),
    `{"manifest":${text},"sha256":"${hash('sha256', text)}"}\n`,
  )
}

export function logPath(directory: string, step: Pick<BackupStep, 'number'>): string {
  return join(directory, `log-${String(step.number).padStart(6, '0')}.db`)
}

export function storedPath(directory: string, sha256: string): string {
  return join(directory, 'files', sha256)
}

/** The size and the digest of a file. */
export async function digestFile(path: string): Promise<StoredFile> {
  const hash = createHash('sha256')
  return { size: await hashChunks(createReadStream(path), hash), sha256: hash.digest('hex') }
}

async function hashChunks(chunks: AsyncIterable<Buffer>, hash: Hash): Promise<number> {
  let size = 0
  for await (const chunk of chunks) {
    hash.update(chunk)
    size += chunk.length
  }
  return size
}
