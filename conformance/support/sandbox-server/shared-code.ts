import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/**
 * The code of the agent server that the first sandbox server of a run of tests compiled for its sandboxes.
 * Every later start begins with a copy: making one takes as long as a start of the agent server. A server
 * that finds the code of other sources compiles its own.
 */
const run = process.env.SLIPWAY_TEST_RUN
const shared = run === undefined ? undefined : join(run, 'sandbox-code')

/** Before a start on a data directory. */
export async function takeSharedCode(data: string): Promise<void> {
  if (shared !== undefined) await linkMissing(shared, join(data, 'code'))
}

/** When no server uses the data directory. */
export async function giveSharedCode(data: string): Promise<void> {
  if (shared !== undefined) await linkMissing(join(data, 'code'), shared)
}

/** Copies what one folder has and the other has not. Its files do not change. */
async function linkMissing(from: string, to: string): Promise<void> {
  const names = await readdir(from).catch(() => [])
  // What begins with a dot is a draft.
  const missing = names.filter((name) => !name.startsWith('.') && !existsSync(join(to, name)))
  if (missing.length === 0) return
  await mkdir(to, { recursive: true, mode: 0o700 })
  const draft = await mkdtemp(join(to, '.draft-'))
  for (const name of missing) {
    const copy = (flags: string) => promisify(execFile)('cp', [flags, join(from, name), join(draft, name)])
    // A data directory may be its own mount.
    await copy('-al').catch(() => copy('-aT'))
    // Another worker may have copied it meanwhile.
    await rename(join(draft, name), join(to, name)).catch(() => undefined)
  }
  await rm(draft, { recursive: true, force: true })
}
