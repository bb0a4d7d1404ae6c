import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from '@slipway/client'
import { readServerAddress, writeServerAddress } from './server-address.ts'
import { isAlive, processStart } from './server-process.ts'
import { findSessionKey } from './session-key.ts'

/** In a data directory: a file for each process that uses its private server, named by the pid. */
export const sessionsDirectory = 'sessions'

/** Between two looks. */
const intervalMs = 3_000
/** A session that has found the server needs a moment to say so. */
const unusedChecks = 3

/**
 * Calls `end` when nothing uses a private server any more: no session lives and nothing runs.
 * Sessions that are killed and runs that were left alone end nothing themselves.
 */
export async function watchUse(
  url: string,
  directory: string,
  options: {
    readonly env: Readonly<Record<string, string | undefined>>
    readonly signal: AbortSignal
    readonly end: () => void
  },
): Promise<void> {
  const client = new Client({ url, sessionApiKey: await findSessionKey(url, directory) })
  let unused = 0
  const timer = setInterval(async () => {
    // Where the note is lost, commands do not find their server.
    if ((await readServerAddress(directory))?.pid !== process.pid)
      await writeServerAddress(directory, url, options.env).catch(() => {})
    unused = (await isUsed(client, directory).catch(() => true)) ? 0 : unused + 1
    if (unused < unusedChecks) return
    clearInterval(timer)
    options.end()
  }, intervalMs)
  timer.unref()
  options.signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}

async function isUsed(client: Client, directory: string): Promise<boolean> {
  return (await livingSessions(directory)).length > 0 || (await countRunning(client)) > 0
}

/** Marks this process as one that uses the server; returns the file that does. */
export async function markSession(directory: string): Promise<string> {
  const file = join(directory, sessionsDirectory, String(process.pid))
  await writeFile(file, (await processStart(process.pid)) ?? '')
  return file
}

/**
 * The pids of the processes that use the server; what those that were killed have left is removed.
 */
export async function livingSessions(directory: string): Promise<readonly number[]> {
  const sessions = join(directory, sessionsDirectory)
  const pids = (await readdir(sessions).catch(() => [])).map(Number).filter(Number.isInteger)
  const living = await Promise.all(
    pids.map(async (pid) => {
      const file = join(sessions, String(pid))
      // Another process may have the pid by now, after a restart of the machine for example.
      const marked = await readFile(file, 'utf8').catch(() => '')
      if (isAlive(pid) && (marked === '' || marked === (await processStart(pid)))) return [pid]
      await rm(file, { force: true })
      return []
    }),
  )
  return living.flat()
}

/** How many conversations run. */
export async function countRunning(client: Client): Promise<number> {
  return await client.call('countConversations', { query: { status: 'running' } })
}
