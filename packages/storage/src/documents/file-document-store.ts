import { constants } from 'node:fs'
import * as systemFiles from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Problem, rethrowStorageFailure, storageUnavailableProblem } from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import { errorCode, makeDirectory, syncDirectory, writeFileAtomic } from '@slipway/shared/fs'
import type { DocumentStore } from './document-store.ts'

interface FileDocumentStoreOptions {
  /** Created with the first document. Documents of the owner '' are in it, others in a folder per owner. */
  readonly directory: string
  /** How bytes are written: a line of base64, or UTF-8 text. */
  readonly encoding: 'base64' | 'utf8'
  /** For tests of failing disks. */
  readonly files?: Pick<typeof systemFiles, 'open' | 'rename' | 'rm'>
}

/** A named pipe is read as an empty file: without the flag reading one would never end. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK
/** Codes of what is at the path of a document and is no file. */
const noFileCodes: readonly unknown[] = ['EISDIR', 'ERR_FS_EISDIR', 'ENOTDIR', 'ELOOP', 'EAGAIN']

/**
 * Documents as files, one writer per directory. An unchanged document is always the same Buffer. A full disk
 * is a Problem `storage_full`; another failure of the disk, or a directory in place of a file, a Problem
 * `unavailable` that names the file.
 *
 * A failed write may have replaced the file: until one succeeds, what the directory has is made durable
 * before each read, so that a repeated change that finds nothing to do is acknowledged rightly.
 */
export class FileDocumentStore implements DocumentStore {
  readonly #options: FileDocumentStoreOptions
  readonly #mutex = new KeyedMutex()
  /** The last known content of each file. */
  readonly #latest = new Map<string, { readonly text: string; readonly bytes: Buffer }>()
  /**
   * Files whose last write failed or continues. Only a write takes one out: it knows that no later one
   * failed.
   */
  readonly #doubtful = new Set<string>()
  readonly #files: NonNullable<FileDocumentStoreOptions['files']>

  constructor(options: FileDocumentStoreOptions) {
    this.#options = options
    this.#files = options.files ?? systemFiles
  }

  async get(owner: string, name: string): Promise<Buffer | undefined> {
    const path = join(this.#folder(owner), name)
    const text = await this.#read(path).catch((error) => undefinedIfMissing(error, path))
    if (text === undefined) return undefined
    const latest = this.#latest.get(path)
    if (latest?.text === text) return latest.bytes
    const bytes = Buffer.from(text, this.#options.encoding)
    this.#latest.set(path, { text, bytes })
    return bytes
  }

  async update(
    owner: string,
    name: string,
    make: (old: Buffer | undefined) => Buffer | undefined,
  ): Promise<void> {
    const folder = this.#folder(owner)
    const path = join(folder, name)
    const change = this.#mutex.runExclusive(path, async () => {
      const bytes = make(await this.get(owner, name))
      const { encoding } = this.#options
      this.#doubtful.add(path)
      if (bytes === undefined) {
        await this.#files.rm(path, { force: true })
        await syncDirectory(folder, this.#files)
        this.#latest.delete(path)
      } else {
        const text = encoding === 'base64' ? `${bytes.toString(encoding)}\n` : bytes.toString(encoding)
        await makeDirectory(folder, 0o700)
        await writeFileAtomic(path, text, this.#files)
        this.#latest.set(path, { text, bytes })
      }
      this.#doubtful.delete(path)
    })
    await change.catch((error) => rethrowFileFailure(error, path))
  }

  /** The names of all files of an owner, in no order. */
  async list(owner: string): Promise<readonly string[]> {
    const options = { withFileTypes: true } as const
    const folder = this.#folder(owner)
    const found = systemFiles.readdir(folder, options)
    const entries = (await found.catch((error) => undefinedIfMissing(error, folder))) ?? []
    return entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map(({ name }) => name)
  }

  async #read(path: string): Promise<string> {
    if (this.#doubtful.has(path)) await syncDirectory(dirname(path), this.#files)
    return await systemFiles.readFile(path, { encoding: 'utf8', flag: readFlags })
  }

  #folder(owner: string): string {
    const { directory } = this.#options
    return owner === '' ? directory : join(directory, `owner-${encodeURIComponent(owner)}`)
  }
}

function undefinedIfMissing(error: unknown, path: string): undefined {
  if (errorCode(error) !== 'ENOENT') rethrowFileFailure(error, path)
}

function rethrowFileFailure(error: unknown, path: string): never {
  const code = errorCode(error)
  if (error instanceof Problem || code === undefined) throw error
  if (noFileCodes.includes(code))
    throw storageUnavailableProblem(
      `${path} cannot be used: something else is in the place of a file. Move it away, and restore the file from a backup.`,
      error,
    )
  rethrowStorageFailure(error, path)
}
