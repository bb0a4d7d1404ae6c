import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { errorCode, findPrivateFile, writeFileAtomic } from '@slipway/shared/fs'
import { Secret } from '@slipway/shared/redaction'

/** The session key that a server without configured ones made for itself. */
export interface StoredSessionKey {
  readonly key: Secret
  /** `session.key` in the data directory; only the server's user may read it. */
  readonly path: string
  /** This start has made it. */
  readonly isNew: boolean
}

/** Of a key that this server has made. */
const keyCharacters = 43
const nextStep = 'Restore it from a backup, or remove it: the next start makes another key.'

/**
 * Reads the session key of a data directory, or creates it. A file that others may read or have written, as
 * one that came with a repository, is replaced. Rejects for a damaged one, and for one that cannot be read:
 * clients have its key. One process at a time uses the directory.
 */
export async function openSessionKey(directory: string, log: LogFunction): Promise<StoredSessionKey> {
  const path = join(directory, 'session.key')
  const found = await findPrivateFile(path).catch((cause: unknown) => {
    throw new Error(`${path} cannot be read: the system says ${errorCode(cause)}. ${nextStep}`, { cause })
  })
  const { text } = found ?? {}
  const key = text !== undefined && /^[\w-]{16,}\s*$/.test(text) ? text.trim() : undefined
  if (key !== undefined && key === text && mayBeCut(key))
    throw new Error(
      `${path} may be cut: its key is short, and no line feed ends it. If the key is your own, end it with one. ${nextStep}`,
    )
  if (key !== undefined) return { key: new Secret(key), path, isNew: false }
  if (text !== undefined)
    throw new Error(`${path} is damaged: it does not contain a session key. ${nextStep}`)
  if (found !== undefined) log('warn', 'the session key was not safe: there is a new one', { path })
  const made = randomBytes(32).toString('base64url')
  await writeFileAtomic(path, `${made}\n`)
  return { key: new Secret(made), path, isNew: true }
}

/**
 * Whether it may be the beginning of a key that this server has made: one of those has letters of both cases.
 */
function mayBeCut(key: string): boolean {
  return key.length < keyCharacters && /[a-z]/.test(key) && /[A-Z]/.test(key)
}
