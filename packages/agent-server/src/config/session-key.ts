import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { exists, readPrivateFile, writeFileAtomic } from '@slipway/shared/fs'
import { Secret } from '@slipway/shared/redaction'

/** The session key that a server without configured ones made for itself. */
export interface StoredSessionKey {
  readonly key: Secret
  /** `session.key` in the data directory; only the server's user may read it. */
  readonly path: string
  /** This start has made it. */
  readonly isNew: boolean
}

/**
 * Reads the session key of a data directory, or creates it. A file that others may read or have written, as
 * one that came with a repository, is replaced. One process at a time uses the directory.
 */
export async function openSessionKey(directory: string, log: LogFunction): Promise<StoredSessionKey> {
  const path = join(directory, 'session.key')
  const text = (await readPrivateFile(path))?.trim() ?? ''
  if (/^[\w-]{16,}$/.test(text)) return { key: new Secret(text), path, isNew: false }
  if (await exists(path)) log('warn', 'the session key was not safe: there is a new one', { path })
  const key = randomBytes(32).toString('base64url')
  await writeFileAtomic(path, `${key}\n`)
  return { key: new Secret(key), path, isNew: true }
}
