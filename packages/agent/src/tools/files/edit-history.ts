import { hash } from 'node:crypto'
import { join } from 'node:path'
import { makeDirectory, readdir, readFile, rm } from '@slipway/shared/tool-files'
import { lstatIfExists, privateFileMode, replaceFile } from '../core/file-access.ts'

/** Stored versions of each file. */
const maxVersions = 10

/** A change of a path: undefined is a path without a file. */
export interface FileChange {
  readonly before: FileVersion | undefined
  readonly after: Uint8Array | undefined
  /** The other path of a move, which has the other half of the change. */
  readonly partner?: string | undefined
}

interface FileVersion {
  readonly bytes: Uint8Array
  /** Undefined for versions that an earlier release stored. */
  readonly mode: number | undefined
}

interface StoredChange {
  readonly before: (FileVersion & { readonly bytes: Buffer }) | undefined
  readonly partner: string | undefined
  /** Whether this is what the change made of the path. */
  isChangedTo(current: Uint8Array | undefined): boolean
  remove(): Promise<void>
}

interface VersionName {
  readonly name: string
  readonly number: number
  /** Of the bytes after the change, or `none`; absent in older versions. */
  readonly digest: string | undefined
  /** The mode before the change in octal digits, or `new`; absent in older versions. */
  readonly before: string | undefined
}

/**
 * Earlier versions of changed files, in the directory of a conversation. One caller at a time for a path. A
 * version is a file `<number>-<digest after the change>-<mode before it>` with the bytes before the change;
 * `<number>.partner` beside it has the other path of a move.
 */
export class EditHistory {
  readonly #directory: string

  constructor(directory: string) {
    this.#directory = join(directory, 'history')
  }

  /**
   * Stores what stands before a change, and drops the oldest above the limit; returns a function that removes
   * it again.
   */
  async push(path: string, { before, after, partner }: FileChange): Promise<() => Promise<void>> {
    const folder = this.#folder(path)
    await makeDirectory(folder, 0o700)
    const versions = await this.#versions(path)
    const number = (versions.at(-1)?.number ?? 0) + 1
    const kind = before === undefined ? 'new' : ((before.mode ?? 0o666) & 0o7777).toString(8)
    const name = `${number}-${digest(after)}-${kind}`
    if (partner !== undefined)
      await replaceFile(join(folder, `${number}.partner`), Buffer.from(partner), privateFileMode)
    await replaceFile(join(folder, name), before?.bytes ?? Buffer.alloc(0), privateFileMode)
    const excess = Math.max(0, versions.length + 1 - maxVersions)
    for (const version of versions.slice(0, excess)) await remove(folder, version)
    return () => remove(folder, { name, number })
  }

  /** The newest change; undefined when there is none. */
  async latest(path: string): Promise<StoredChange | undefined> {
    const newest = (await this.#versions(path)).at(-1)
    if (newest === undefined) return undefined
    const folder = this.#folder(path)
    const partnerFile = join(folder, `${newest.number}.partner`)
    const hasPartner = (await lstatIfExists(partnerFile)) !== undefined
    const mode = newest.before === undefined ? undefined : Number.parseInt(newest.before, 8)
    return {
      before:
        newest.before === 'new' ? undefined : { bytes: await readFile(join(folder, newest.name)), mode },
      partner: hasPartner ? (await readFile(partnerFile)).toString() : undefined,
      isChangedTo: (current) => newest.digest === undefined || newest.digest === digest(current),
      remove: () => remove(folder, newest),
    }
  }

  #folder(path: string): string {
    return join(this.#directory, hash('sha256', path).slice(0, 32))
  }

  async #versions(path: string): Promise<VersionName[]> {
    const folder = this.#folder(path)
    if ((await lstatIfExists(folder)) === undefined) return []
    const names = (await readdir(folder)).flatMap((name): VersionName[] => {
      const [, number, digest, before] = /^(\d+)(?:-([0-9a-f]{32}|none)(?:-(new|[0-7]+))?)?$/.exec(name) ?? []
      return number === undefined ? [] : [{ name, number: Number(number), digest, before }]
    })
    return names.sort((a, b) => a.number - b.number)
  }
}

async function remove(folder: string, { name, number }: Pick<VersionName, 'name' | 'number'>): Promise<void> {
  await rm(join(folder, name), { force: true })
  await rm(join(folder, `${number}.partner`), { force: true })
}

function digest(bytes: Uint8Array | undefined): string {
  return bytes === undefined ? 'none' : hash('sha256', bytes).slice(0, 32)
}

/** Makes a change and stores what stands before it; a change that fails stores nothing. */
export async function withHistory(
  history: EditHistory,
  path: string,
  change: FileChange,
  apply: () => Promise<void>,
): Promise<void> {
  const rollback = await history.push(path, change)
  try {
    await apply()
  } catch (error) {
    await rollback()
    throw error
  }
}
