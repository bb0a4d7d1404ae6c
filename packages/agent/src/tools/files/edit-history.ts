import { createHash } from 'node:crypto'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectory } from '@slipway/shared/fs'
import { lstatIfExists, privateFileMode, replaceFile } from '../core/file-access.ts'

/** Stored versions of each file. */
const maxVersions = 10

/** Earlier versions of edited files, in the directory of a conversation. One caller at a time for a path. */
export class EditHistory {
  readonly #directory: string

  constructor(directory: string) {
    this.#directory = join(directory, 'history')
  }

  /** Stores a version and drops the oldest above the limit; returns a function that removes it again. */
  async push(path: string, bytes: Uint8Array): Promise<() => Promise<void>> {
    const folder = this.#folder(path)
    await makeDirectory(folder, 0o700)
    const versions = await this.#versions(path)
    const file = join(folder, String((versions.at(-1) ?? 0) + 1))
    await replaceFile(file, bytes, privateFileMode)
    const excess = Math.max(0, versions.length + 1 - maxVersions)
    for (const oldVersion of versions.slice(0, excess)) await rm(join(folder, String(oldVersion)))
    return () => rm(file, { force: true })
  }

  /** The newest version, with a function that removes it; undefined when there is none. */
  async latest(path: string): Promise<{ readonly bytes: Buffer; remove(): Promise<void> } | undefined> {
    const newest = (await this.#versions(path)).at(-1)
    if (newest === undefined) return undefined
    const file = join(this.#folder(path), String(newest))
    return { bytes: await readFile(file), remove: () => rm(file, { force: true }) }
  }

  /** Removes all versions of a path. */
  async clear(path: string): Promise<void> {
    await rm(this.#folder(path), { recursive: true, force: true })
  }

  #folder(path: string): string {
    return join(this.#directory, createHash('sha256').update(path).digest('hex').slice(0, 32))
  }

  async #versions(path: string): Promise<number[]> {
    const folder = this.#folder(path)
    if ((await lstatIfExists(folder)) === undefined) return []
    const names = (await readdir(folder)).filter((name) => /^\d+$/.test(name))
    return names.map(Number).sort((a, b) => a - b)
  }
}
