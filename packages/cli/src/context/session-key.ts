import { join, resolve } from 'node:path'
import { readPrivateFile } from '@slipway/shared/fs'
import { Secret } from '@slipway/shared/redaction'

/**
 * The session key that a server has made in its data directory, for calls to an address of this machine;
 * undefined for other addresses, and for a file that others may read or that is another user's.
 */
export async function findSessionKey(url: string, dataDirectory: string): Promise<Secret | undefined> {
  if (!isLoopbackUrl(url)) return undefined
  const text = (await readPrivateFile(join(resolve(dataDirectory), 'session.key')))?.trim()
  return text ? new Secret(text) : undefined
}

/** Names that resolve elsewhere on some machines, as those below `localhost`, do not count. */
function isLoopbackUrl(url: string): boolean {
  const { protocol, hostname } = URL.parse(url) ?? {}
  return /^https?:$/.test(protocol ?? '') && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname ?? '')
}
