import { hash } from 'node:crypto'
import { join } from 'node:path'
import { makeDirectory, readdir, readFile, rm } from '@slipway/shared/tool-files'
import { lstatIfExists, privateFileMode, replaceFile } from '../core/file-access.ts'

/** Stored versions of each file. */
const maxVersions = 10

interface Version {
  readonly bytes: Buffer
  /** Whether these bytes are what the change made of it. */
  isChangedTo(current: Uint8Array): boolean
  remove(): Promise<void>
}

interface VersionName {
  readonly name: string
  readonly number: number
  /** Of the bytes after the change; older versions have none. */
  readonly digest: string | undefined
}

/** Earlier versions of edited files, in the directory of a conversation. One caller at a time for a path. */
export class EditHistory {
  readonly #directory: string

  constructor(directory: string) {
    this.#directory = join(directory, 'history')
  }

  /**
   * Stores the version before a change to `changed`, and drops the oldest above the limit; returns a function
   * that removes it again.
   */
  async push(path: string, bytes: Uint8Array, changed: Uint8Array): Promise<() => Promise<void>> {
    const folder = this.#folder(path)
    await makeDirectory(folder, 0o700)
    const versions = await this.#versions(path)
    const file = join(folder, `${(versions.at(-1)?.number ?? 0) + 1}-${digest(changed)}`)
    await replaceFile(file, bytes, privateFileMode)
    const excess = Math.max(0, versions.length + 1 - maxVersions)
    for (const { name } of versions.slice(0, excess)) await rm(join(folder, name))
    return () => rm(file, { force: true })
  }

  /** The newest version; undefined when there is none. */
  async latest(path: string): Promise<Version | undefined> {
    const newest = (await this.#versions(path)).at(-1)
    if (newest === undefined) return undefined
    const file = join(this.#folder(path), newest.name)
    return {
      bytes: await readFile(file),
      isChangedTo: (current) => newest.digest === undefined || newest.digest === digest(current),
      remove: () => rm(file, { force: true }),
    }
  }

  /** Removes all versions of a path. */
  async clear(path: string): Promise<void> {
    await rm(this.#folder(path), { recursive: true, force: true })
  }

  #folder(path: string): string {
    return join(this.#directory, hash('sha256', path).slice(0, 32))
  }

  async #versions(path: string): Promise<VersionName[]> {
    const folder = this.#folder(path)
    if ((await lstatIfExists(folder)) === undefined) return []
    const names = (await readdir(folder)).flatMap((name): VersionName[] => {
      const [, number, digest] = /^(\d+)(?:-([0-9a-f]+))?$/.exec(name) ?? []
      return number === undefined ? [] : [{ name, number: Number(number), digest }]
    })
    return names.sort((a, b) => a.number - b.number)
  }
}

function digest(bytes: Uint8Array): string {
  return hash('sha256', bytes).slice(0, 32)
}
