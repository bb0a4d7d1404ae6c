import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Problem } from '@slipway/protocol'

/**
 * Throws a Problem `forbidden` for the real path of a folder whose files are out of reach of callers: the
 * data directory itself, where keys and databases lie, and `/proc/1`, because the environment of a process
 * may hold the key. A control plane reads files of its sandboxes for callers that may see no secrets.
 */
export async function assertServedFolder(folder: string, dataDirectory: string): Promise<void> {
  const data = await realpath(dataDirectory).catch(() => resolve(dataDirectory))
  if (folder === data) throw new Problem('forbidden', 'Keys and databases of the server are out of reach')
  if (/^\/proc\/\d+(?:\/|$)/.test(folder))
    throw new Problem('forbidden', 'Files of processes are out of reach')
}
