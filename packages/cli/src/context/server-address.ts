import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readPrivateFile, writeFileAtomic } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import { isOwnAddress } from './session-key.ts'

/** The file of a data directory in which its server says where it is. */
export const serverFile = 'server.json'

export interface ServerAddress {
  readonly url: string
  readonly pid: number
}

const answerMs = 2_000

/** Notes where the server of this process is, for commands that name its data directory. */
export async function writeServerAddress(directory: string, url: string): Promise<void> {
  const text = JSON.stringify({ url: reachableUrl(url), pid: process.pid } satisfies ServerAddress)
  await writeFileAtomic(join(directory, serverFile), `${text}\n`)
}

/** Removes the note of this process; that of another one stays. */
export async function removeServerAddress(directory: string): Promise<void> {
  if ((await readServerAddress(directory))?.pid === process.pid)
    await rm(join(directory, serverFile), { force: true })
}

/** What the file says, if its process lives. A repository may bring a file of this name: its mode is another one. */
export async function readServerAddress(directory: string): Promise<ServerAddress | undefined> {
  const text = await readPrivateFile(join(directory, serverFile)).catch(() => undefined)
  const value = parseJson(text ?? '')
  if (!isRecord(value) || typeof value.url !== 'string' || typeof value.pid !== 'number') return undefined
  return isAlive(value.pid) ? { url: value.url, pid: value.pid } : undefined
}

/**
 * The address of the server of a data directory, if its process lives and it answers: only one of this user
 * on this machine, because the directory may be one that somebody else has made.
 */
export async function findServer(directory: string, signal: AbortSignal): Promise<string | undefined> {
  const address = await readServerAddress(directory)
  if (address === undefined || !(await isOwnAddress(address.url))) return undefined
  const within = AbortSignal.any([signal, AbortSignal.timeout(answerMs)])
  const answers = await fetch(new URL('/alive', address.url), { signal: within }).then(
    ({ ok }) => ok,
    () => false,
  )
  return answers ? address.url : undefined
}

/** Whether a process runs. */
export function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid < 1) return false
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** A server that listens at every address is reached at this machine's own. */
function reachableUrl(url: string): string {
  return url.replace(/^(https?:\/\/)(?:0\.0\.0\.0|\[::\])(?=[:/]|$)/, '$1127.0.0.1')
}
