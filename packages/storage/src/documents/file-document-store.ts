import { constants } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { rethrowStorageFailure, storageUnavailableProblem } from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import { errorCode, makeDirectory, syncDirectory, writeFileAtomic } from '@slipway/shared/fs'
import type { DocumentStore } from './document-store.ts'

interface FileDocumentStoreOptions {
  /** Created with the first document. Documents of the owner '' are in it, others in a folder per owner. */
  readonly directory: string
  /** How bytes are written: a line of base64, or UTF-8 text. */
  readonly encoding: 'base64' | 'utf8'
}

/** A named pipe is read as an empty file: without the flag reading one would never end. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK
/** Codes of what is at the path of a document and is no file. */
const noFileCodes: readonly unknown[] = ['EISDIR', 'ERR_FS_EISDIR', 'ENOTDIR', 'ELOOP', 'EAGAIN']

/**
 * Documents as files, one writer per directory. An unchanged document is always the same Buffer. A full disk
 * is a Problem `storage_full`; another failure of the disk, or a directory in place of a file, a Problem
 * `unavailable`.
 */
export class FileDocumentStore implements DocumentStore {
  readonly #options: FileDocumentStoreOptions
  readonly #mutex = new KeyedMutex()
  /** The last known content of each file. */
  readonly #latest = new Map<string, { readonly text: string; readonly bytes: Buffer }>()

  constructor(options: FileDocumentStoreOptions) {
    this.#options = options
  }

  async get(owner: string, name: string): Promise<Buffer | undefined> {
    const path = join(this.#folder(owner), name)
    const text = await readFile(path, { encoding: 'utf8', flag: readFlags }).catch(undefinedIfMissing)
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
      if (bytes === undefined) {
        await rm(path, { force: true })
        await syncDirectory(folder)
        this.#latest.delete(path)
        return
      }
      const { encoding } = this.#options
      const text = encoding === 'base64' ? `${bytes.toString(encoding)}\n` : bytes.toString(encoding)
      await makeDirectory(folder, 0o700)
      await writeFileAtomic(path, text)
      this.#latest.set(path, { text, bytes })
    })
    await change.catch(rethrowFileFailure)
  }

  /** The names of all files of an owner, in no order. */
  async list(owner: string): Promise<readonly string[]> {
    const options = { withFileTypes: true } as const
    const entries = (await readdir(this.#folder(owner), options).catch(undefinedIfMissing)) ?? []
    return entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map(({ name }) => name)
  }

  #folder(owner: string): string {
    const { directory } = this.#options
    return owner === '' ? directory : join(directory, `owner-${encodeURIComponent(owner)}`)
  }
}

function undefinedIfMissing(error: unknown): undefined {
  if (errorCode(error) !== 'ENOENT') rethrowFileFailure(error)
}

function rethrowFileFailure(error: unknown): never {
  if (noFileCodes.includes(errorCode(error)))
    throw storageUnavailableProblem('Files cannot be used: something else is in the place of a file', error)
  rethrowStorageFailure(error)
}
