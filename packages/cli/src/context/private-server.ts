import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { Secret } from '@slipway/shared/redaction'
import { userDataDirectory } from './contexts.ts'
import { findSessionKey } from './session-key.ts'

/** The server that sessions share. */
export interface PrivateServer {
  readonly url: string
  readonly key: Secret | undefined
  readonly pid: number
}

/** The name of the file in which it says where it is. */
export const privateServerFile = 'server.json'

/** The running server of this user's sessions; undefined when none runs. */
export async function findPrivateServer(
  env: Readonly<Record<string, string | undefined>>,
): Promise<PrivateServer | undefined> {
  const directory = userDataDirectory(env)
  const text = await readFile(join(directory, privateServerFile), 'utf8').catch(() => '')
  const value = parseJson(text)
  if (!isRecord(value) || typeof value.url !== 'string' || typeof value.pid !== 'number') return undefined
  if (!isAlive(value.pid)) return undefined
  return { url: value.url, pid: value.pid, key: await findSessionKey(value.url, directory) }
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
