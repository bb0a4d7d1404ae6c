import { readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { exists } from '@slipway/shared/fs'
import { assertUntracked } from '@slipway/shared/process'
import { DirectoryLock } from '@slipway/storage'
import { compactDatabase, type LogUsage, readUsage } from '@slipway/storage/maintenance'
import { databaseNames, logName, statOrUndefined } from './data-files.ts'

export interface DiskUsage {
  readonly total_bytes: number
  /** The files and folders of the data directory with all that they have on the disk, the largest first. */
  readonly entries: readonly { readonly path: string; readonly bytes: number }[]
  readonly log: LogUsage
}

/** What a data directory takes on the disk, also while a server uses it. */
export async function measureUsage(data: string): Promise<DiskUsage> {
  const directory = resolve(data)
  await assertUntracked(directory)
  const log = readUsage(join(directory, logName))
  const names = await readdir(directory)
  const sizes = await Promise.all(
    names.map(async (path) => ({ path, bytes: await measure(join(directory, path)) })),
  )
  const entries = sizes.toSorted((one, other) => other.bytes - one.bytes)
  return { total_bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0), entries, log }
}

/** Blocks that are taken; links are not followed. */
async function measure(path: string): Promise<number> {
  const stats = await statOrUndefined(path)
  if (stats === undefined) return 0
  // Windows does not count blocks.
  const own = stats.blocks === undefined ? stats.size : stats.blocks * 512
  if (!stats.isDirectory()) return own
  let sum = own
  for (const name of await readdir(path).catch(() => [])) sum += await measure(join(path, name))
  return sum
}

export interface CompactedDatabase {
  readonly name: string
  readonly before_bytes: number
  readonly after_bytes: number
}

/**
 * Rewrites the databases of a data directory without their free space. Rejects when a server uses the
 * directory.
 */
export async function compact(data: string): Promise<CompactedDatabase[]> {
  const directory = resolve(data)
  if (!(await exists(join(directory, logName))))
    throw new Error(`${directory} has no ${logName}. Name the data directory with --data.`)
  using _ = await DirectoryLock.acquire(directory)
  const done: CompactedDatabase[] = []
  for (const name of databaseNames) {
    const path = join(directory, name)
    if (!(await exists(path))) continue
    const { before, after } = compactDatabase(path)
    done.push({ name, before_bytes: before, after_bytes: after })
  }
  return done
}
