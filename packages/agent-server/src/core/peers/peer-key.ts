import { hkdfSync } from 'node:crypto'
import { Secret } from '@slipway/shared/redaction'

/** The key of requests between servers that share a database: all of them have the same secret key. */
export function derivePeerKey(secretKey: Secret): Secret {
  return new Secret(
    Buffer.from(hkdfSync('sha256', secretKey.reveal(), '', 'slipway peer requests', 32)).toString('hex'),
  )
}

/** The keys that a server accepts, with that of other servers where it needs a key at all. */
export function withPeerKey(
  getKeys: () => readonly Secret[] | undefined,
  peerKey: Secret,
): () => readonly Secret[] | undefined {
  let last: { readonly keys: readonly Secret[]; readonly all: readonly Secret[] } | undefined
  return () => {
    const keys = getKeys()
    if (keys === undefined || keys.length === 0) return keys
    if (last?.keys !== keys) last = { keys, all: [...keys, peerKey] }
    return last.all
  }
}
