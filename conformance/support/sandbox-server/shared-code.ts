import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/**
 * The code of the agent server that the first sandbox server of a run of tests compiled for its sandboxes.
 * Every later data directory begins with a copy: making one takes as long as a start of the agent server. A
 * server that finds the code of other sources compiles its own.
 */
const run = process.env.SLIPWAY_TEST_RUN
const shared = run === undefined ? undefined : join(run, 'sandbox-code')

/** Before the first start on a data directory. */
export async function takeSharedCode(data: string): Promise<void> {
  if (shared !== undefined && existsSync(shared)) await linkFiles(shared, join(data, 'code'))
}

/** When no server uses the data directory. */
export async function giveSharedCode(data: string): Promise<void> {
  if (shared === undefined) return
  const own = join(data, 'code')
  const names = await readdir(own).catch(() => [])
  // What begins with a dot is a draft.
  const missing = names.filter((name) => !name.startsWith('.') && !existsSync(join(shared, name)))
  if (missing.length === 0) return
  await mkdir(shared, { recursive: true, mode: 0o700 })
  const draft = await mkdtemp(`${shared}-`)
  for (const name of missing) {
    await linkFiles(join(own, name), join(draft, name))
    // Another worker may have given it meanwhile.
    await rename(join(draft, name), join(shared, name)).catch(() => undefined)
  }
  await rm(draft, { recursive: true, force: true })
}

/** A copy of a folder whose files do not change. */
async function linkFiles(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-al', from, to])
}
