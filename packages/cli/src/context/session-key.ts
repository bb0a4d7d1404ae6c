import { join, resolve } from 'node:path'
import { readPrivateFile } from '@slipway/shared/fs'
import { Secret } from '@slipway/shared/redaction'
import { isLoopback } from '@slipway/shared/url'
import { findForeignListener } from './loopback-listener.ts'

/**
 * The session key that a server has made in its data directory, for calls to an address of this machine;
 * undefined for other addresses, and for a file that others may read or that is another user's. Rejects
 * when another user listens at that address.
 */
export async function findSessionKey(url: string, dataDirectory: string): Promise<Secret | undefined> {
  if (!isLoopbackUrl(url)) return undefined
  const text = (await readPrivateFile(join(resolve(dataDirectory), 'session.key')))?.trim()
  if (!text) return undefined
  const foreignUser = await findForeignListener(url)
  if (foreignUser === undefined) return new Secret(text)
  throw new Error(
    `The user ${foreignUser} listens at ${url}, so the session key of ${resolve(dataDirectory)} is not sent there. ` +
      'Name the address of your server with --url, or its key in SLIPWAY_SESSION_API_KEY.',
  )
}

/** Whether this user, root or no one listens at a loopback address: it may get a key of `config.toml`. */
export async function isOwnAddress(url: string): Promise<boolean> {
  return isLoopbackUrl(url) && (await findForeignListener(url)) === undefined
}

export function isLoopbackUrl(url: string): boolean {
  const { protocol, hostname } = URL.parse(url) ?? {}
  return /^https?:$/.test(protocol ?? '') && isLoopback(hostname ?? '')
}
