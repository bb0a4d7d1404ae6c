import { invalid, type Llm, llm, type SecretSource, secretSource } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { withOpened } from '../secrets/sealed-text.ts'
import { secretOfPath } from '../secrets/server-secrets.ts'
import type { Profiles } from './llm-profiles.ts'

type Place = readonly (string | number)[]

/** What is needed to use what a client brings. */
export interface Taking {
  readonly cipher: Cipher
  readonly profiles: Pick<Profiles, 'connected'>
}

/**
 * A model of a request, ready to be asked: sealed secrets opened, with the key and the address of the connection that it names.
 * Problems `invalid` with the place of what was sealed with another key, and of a connection that is not there.
 */
export async function takenModel({ cipher, profiles }: Taking, model: Llm, place: Place): Promise<Llm> {
  const connected = await profiles.connected(withOpened(cipher, llm, model, place))
  if (connected !== undefined) return connected
  throw invalid([...place, 'provider_connection_id'], 'There is no such provider connection')
}

/**
 * Sources of secrets of a request, values opened. A Problem `invalid` besides for a relative address that is not that of a secret of
 * this server.
 */
export function takenSources(
  cipher: Cipher,
  sources: Readonly<Record<string, SecretSource>>,
  place: Place,
): Record<string, SecretSource> {
  const opened = Object.entries(sources).map(([name, given]) => {
    const source = withOpened(cipher, secretSource, given, [...place, name])
    const isKnown = source.kind !== 'LookupSecret' || URL.canParse(source.url) || isOwn(source.url)
    if (!isKnown) throw invalid([...place, name, 'url'], 'Without a host it is /api/settings/secrets/NAME')
    return [name, source] as const
  })
  return Object.fromEntries(opened)
}

function isOwn(url: string): boolean {
  return secretOfPath(url) !== undefined
}
