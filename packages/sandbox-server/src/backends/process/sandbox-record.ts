import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectory, syncDirectory, writeFileAtomic } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { SandboxNetworkMode } from '../backend.ts'
import { unmountAllBelow } from './host/disk-image.ts'
import { ignoreErrors } from './host/files.ts'
import { idPattern, sandboxPaths } from './sandbox-paths.ts'

/** What is stored about one sandbox, where it cannot write. Contains nothing of its environment. */
export type SandboxRecord = Readonly<ReturnType<typeof newRecord>>

function newRecord(ledger: string, id: string) {
  return {
    version: 1,
    ledger,
    id,
    isRemoving: false,
    /** Of the newest start, empty before the first: a supervisor of another epoch ends. */
    epoch: '',
    startedAtMs: 0,
    bootId: '',
    /** Device and number of its folder at the newest start; empty in records of earlier versions. */
    place: '',
    /** It was restored from a backup, or copied: what ran then is the other folder's. */
    isCopy: false,
    network: 'private' as SandboxNetworkMode,
    /** It listens on a Unix socket; earlier versions of this server gave it a port. */
    hasSocket: false,
    /** User of the host, where the sandbox has one of its own. */
    user: null as number | null,
    isJailed: false,
    workingDir: '',
    groups: [] as readonly string[],
    /** Size of its output at the newest start; 0 in records of earlier versions. */
    outputStart: 0,
    /** Size of its own file system; null: it has none. */
    diskBytes: null as number | null,
    /** Why it could not be started. */
    fault: null as string | null,
  }
}

/** In place of a record that is not written. */
const unreadableVersion = 0
/** What these say of a record stays true; other errors of a read, as EMFILE, say nothing of it and pass. */
const damageCodes = ['EISDIR', 'ELOOP', 'EACCES', 'EPERM']

function unreadableRecord(ledger: string, id: string, path: string): SandboxRecord {
  const fault = `${path} cannot be read: it is damaged, or was written by a newer version. Restore it, or end the processes of the sandbox and remove its folder.`
  return { ...newRecord(ledger, id), version: unreadableVersion, fault }
}

type ReadText = (path: string, encoding: 'utf8') => Promise<string>

/** The records of one ledger in one directory. Ignores those of other ledgers. */
export class SandboxRecords {
  readonly directory: string
  readonly #ledger: string
  readonly #readFile: ReadText

  /** `read` is for tests of failing disks. */
  constructor(directory: string, ledger: string, read: ReadText = readFile) {
    this.directory = directory
    this.#ledger = ledger
    this.#readFile = read
  }

  /** The beginning of the paths of folders for probes; `removeLeftovers` finds them. */
  get probePrefix(): string {
    return join(this.directory, `.trial-${this.#ledger}-`)
  }

  /** Rejects for a damaged record: whether its processes run is not known. */
  async read(id: string): Promise<SandboxRecord | undefined> {
    const record = await this.find(id)
    if (record?.version === unreadableVersion) throw new Error(record.fault ?? '')
    return record
  }

  /** The record; one with a fault in place of a damaged one. */
  async find(id: string): Promise<SandboxRecord | undefined> {
    if (!idPattern.test(id)) return undefined
    const path = sandboxPaths(this.directory, id).record
    const file = ignoreErrors(damageCodes, this.#readFile(path, 'utf8')).then((text) => text ?? '')
    const text = await ignoreErrors(['ENOENT', 'ENOTDIR'], file)
    if (text === undefined) return undefined
    const record = parseJson(text)
    if (isRecord(record) && typeof record.ledger === 'string' && record.ledger !== this.#ledger)
      return undefined
    if (!isSandboxRecord(record)) return unreadableRecord(this.#ledger, id, path)
    if (record.ledger !== this.#ledger || record.id !== id) return undefined
    return await this.#withoutOthers(record)
  }

  /**
   * In a copy of the folder, as a restored backup is, process ids and control groups name what runs in the
   * other folder, perhaps for another server: nothing here may observe or end that.
   */
  async #withoutOthers(record: SandboxRecord): Promise<SandboxRecord> {
    if (!record.place || record.place === (await readPlace(sandboxPaths(this.directory, record.id).root)))
      return record
    return { ...record, isCopy: true, place: '', epoch: '', bootId: '', groups: [] }
  }

  async list(): Promise<readonly SandboxRecord[]> {
    const records = await Promise.all((await this.listIds()).map((id) => this.find(id)))
    return records.filter((each) => each !== undefined)
  }

  /** Of the folders that may have a record. */
  async listIds(): Promise<readonly string[]> {
    return (await this.#names()).filter((name) => idPattern.test(name))
  }

  /** Replaces the record durably. On one line: the supervisor reads it too. */
  async write(record: SandboxRecord): Promise<SandboxRecord> {
    await writeFileAtomic(sandboxPaths(this.directory, record.id).record, `${JSON.stringify(record)}\n`)
    return record
  }

  /** Reads the record, or creates it together with its folder, so that no folder is without a label. */
  async getOrCreate(id: string): Promise<SandboxRecord> {
    const existing = await this.read(id)
    if (existing !== undefined) return existing
    const paths = sandboxPaths(this.directory, id)
    await makeDirectory(this.directory, 0o700)
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

  /** Removes the folder with the record, which must be all that is left in it. */
  async remove(id: string): Promise<void> {
    const tombstone = join(this.directory, `.gone-${this.#ledger}-${id}`)
    await rm(tombstone, { recursive: true, force: true })
    await ignoreErrors(['ENOENT'], rename(sandboxPaths(this.directory, id).root, tombstone))
    await rm(tombstone, { recursive: true, force: true })
    await syncDirectory(this.directory)
  }

  /**
   * Removes what an interrupted `getOrCreate`, `remove` or probe left: all of it, while none runs, or what
   * has this age.
   */
  async removeLeftovers(minAgeMs = 0): Promise<void> {
    const prefixes = ['.new-', '.gone-', '.trial-'].map((prefix) => `${prefix}${this.#ledger}-`)
    for (const name of await this.#names()) {
      if (!prefixes.some((prefix) => name.startsWith(prefix))) continue
      if (minAgeMs > 0 && (await ageMs(join(this.directory, name))) < minAgeMs) continue
      await unmountAllBelow(join(this.directory, name))
      await rm(join(this.directory, name), { recursive: true, force: true })
    }
  }

  async #names(): Promise<readonly string[]> {
    return (await ignoreErrors(['ENOENT'], readdir(this.directory))) ?? []
  }
}

/** Of a folder; empty when it is gone. */
export async function readPlace(path: string): Promise<string> {
  const found = await ignoreErrors(['ENOENT'], stat(path))
  return found === undefined ? '' : `${found.dev}:${found.ino}`
}

/** 0 when it is gone. */
async function ageMs(path: string): Promise<number> {
  const found = await ignoreErrors(['ENOENT'], stat(path))
  return found === undefined ? 0 : Date.now() - found.mtimeMs
}

/** Only this class writes the file, always as a whole: the version implies the members. */
function isSandboxRecord(value: unknown): value is SandboxRecord {
  return isRecord(value) && value.version === 1
}
