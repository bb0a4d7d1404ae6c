import { randomBytes } from 'node:crypto'
import type { Stats } from 'node:fs'
import { dirname, join } from 'node:path'
import { inRealDirectory, link, lstat, rename, unlink } from '@slipway/shared/tool-files'
import type { Workspace } from '../../workspace/workspace.ts'
import { lstatIfExists, replaceFile } from './file-access.ts'

/** A search for other names that takes longer finds none. */
const searchMs = 5_000
/** Files with more names are not searched for: package managers share such ones. */
const maxNames = 64

/**
 * Replaces a file of the workspace as `replaceFile` does, under all names that it has there: hard links stay
 * links of one file. Names outside of the workspace keep the old bytes, so nothing is written through one.
 */
export async function replaceLinkedFile(
  real: string,
  bytes: Uint8Array,
  workspace: Workspace,
): Promise<void> {
  const stats = await lstatIfExists(real)
  const names = stats === undefined ? [] : await otherNames(real, stats, workspace)
  await replaceFile(real, bytes)
  for (const name of names) if (stats !== undefined) await relink(real, name, stats)
}

async function otherNames(real: string, stats: Stats, workspace: Workspace): Promise<string[]> {
  if (!stats.isFile() || stats.nlink < 2 || stats.nlink > maxNames) return []
  const args = [workspace.directory, '-xdev', '-type', 'f', '-inum', String(stats.ino), '-print0']
  const { stdout, isTimedOut } = await workspace.run('find', args, { timeoutMs: searchMs })
  if (isTimedOut) return []
  const names = stdout.toString().split('\0').slice(0, -1)
  const inside = names.map(async (name) => ({
    name,
    real: await workspace.resolve(name, 'write').catch(() => undefined),
  }))
  return (await Promise.all(inside)).flatMap((one) =>
    one.real === one.name && one.name !== real ? [one.name] : [],
  )
}

/** Makes `name` a link of `real` by one step, if it still is the file of `stats`. */
async function relink(real: string, name: string, stats: Stats): Promise<void> {
  await inRealDirectory(real, (from) =>
    inRealDirectory(name, async (to) => {
      const { dev, ino } = await lstat(to)
      if (dev !== stats.dev || ino !== stats.ino) return
      const temporary = join(dirname(to), `.slipway-${randomBytes(8).toString('hex')}.tmp`)
      await link(from, temporary)
      try {
        await rename(temporary, to)
      } catch (error) {
        await unlink(temporary).catch(() => {})
        throw error
      }
    }),
  )
}
