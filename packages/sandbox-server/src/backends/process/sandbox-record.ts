import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncDirectory, writeFileAtomic } from '@slipway/shared/fs'
import { unmountAllBelow } from './host/disk-image.ts'
import { ignoreErrors, readSmallFile } from './host/files.ts'
import { idPattern, sandboxPaths } from './sandbox-paths.ts'

/** What is written down about one sandbox, where the sandbox cannot write. It holds nothing of the order's environment. */
export interface SandboxRecord {
  readonly version: 1
  readonly ledger: string
  readonly id: string
  readonly isRemoving: boolean
  /** Of the newest start, empty before the first: a supervisor that does not find its own here ends by itself. */
  readonly epoch: string
  readonly startedAtMs: number
  readonly bootId: string
  readonly network: 'shared' | 'none'
  readonly port: number | null
  /** User of the host, where the sandbox has one of its own. */
  readonly user: number | null
  readonly isJailed: boolean
  readonly workingDir: string
  readonly groups: readonly string[]
  /** Size of its own file system; null: it has none. */
  readonly diskBytes: number | null
  /** Why it could not be started. */
  readonly fault: string | null
}

export function newRecord(ledger: string, id: string): SandboxRecord {
  return {
    version: 1,
    ledger,
    id,
    isRemoving: false,
    epoch: '',
    startedAtMs: 0,
    bootId: '',
    network: 'shared',
    port: null,
    user: null,
    isJailed: false,
    workingDir: '',
    groups: [],
    diskBytes: null,
    fault: null,
  }
}

/** The records of one ledger in one directory. What is not of this ledger is as if it were not there. */
export class SandboxRecords {
  readonly directory: string
  readonly #ledger: string

  constructor(directory: string, ledger: string) {
    this.directory = directory
    this.#ledger = ledger
  }

  /** What names of folders for trials begin with; `sweep` finds them. */
  get probePrefix(): string {
    return join(this.directory, `.trial-${this.#ledger}-`)
  }

  async read(id: string): Promise<SandboxRecord | undefined> {
    if (!idPattern.test(id)) return undefined
    const text = await readSmallFile(sandboxPaths(this.directory, id).record)
    const record = text === undefined ? undefined : parseRecord(text)
    return record?.ledger === this.#ledger && record.id === id ? record : undefined
  }

  async list(): Promise<readonly SandboxRecord[]> {
    const names = (await ignoreErrors(['ENOENT'], readdir(this.directory))) ?? []
    const records = await Promise.all(names.map((name) => this.read(name)))
    return records.filter((each) => each !== undefined)
  }

  /** Replaces the record; it is on the disk when this resolves. On one line: the supervisor reads it too. */
  async write(record: SandboxRecord): Promise<SandboxRecord> {
    await writeFileAtomic(sandboxPaths(this.directory, record.id).record, `${JSON.stringify(record)}\n`)
    return record
  }

  /** The record of a sandbox; its folder is made with it at once, so that there is never one without a label. */
  async getOrCreate(id: string): Promise<SandboxRecord> {
    const existing = await this.read(id)
    if (existing !== undefined) return existing
    const paths = sandboxPaths(this.directory, id)
    await mkdir(this.directory, { recursive: true, mode: 0o700 })
    const draft = join(this.directory, `.new-${this.#ledger}-${id}`)
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft, { mode: 0o700 })
    const record = newRecord(this.#ledger, id)
    await writeFileAtomic(join(draft, 'process.json'), `${JSON.stringify(record)}\n`)
    const moved = await ignoreErrors(
      ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'],
      rename(draft, paths.root).then(() => true),
    )
    if (moved === undefined) throw new Error(`${paths.root} is there and does not belong to this server`)
    await syncDirectory(this.directory)
    return record
  }

  /** Takes away the folder with the record, which must be all that is left in it. */
  async remove(id: string): Promise<void> {
    const tombstone = join(this.directory, `.gone-${this.#ledger}-${id}`)
    await rm(tombstone, { recursive: true, force: true })
    await ignoreErrors(['ENOENT'], rename(sandboxPaths(this.directory, id).root, tombstone))
    await rm(tombstone, { recursive: true, force: true })
    await syncDirectory(this.directory)
  }

  /** Takes away what a cut-off `open`, `forget` or trial left behind. Not while one is at work. */
  async removeLeftovers(): Promise<void> {
    const names = (await ignoreErrors(['ENOENT'], readdir(this.directory))) ?? []
    const marks = ['.new-', '.gone-', '.trial-'].map((mark) => `${mark}${this.#ledger}-`)
    for (const name of names.filter((each) => marks.some((mark) => each.startsWith(mark)))) {
      await unmountAllBelow(join(this.directory, name))
      await rm(join(this.directory, name), { recursive: true, force: true })
    }
  }
}

/** Undefined when it is not one of ours, or of a version that we do not know. */
function parseRecord(text: string): SandboxRecord | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isSandboxRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** We alone write the file, each time as a whole: the version tells what is in it. */
function isSandboxRecord(value: unknown): value is SandboxRecord {
  return typeof value === 'object' && value !== null && 'version' in value && value.version === 1
}
