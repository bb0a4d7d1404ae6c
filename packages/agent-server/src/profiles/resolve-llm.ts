import { invalidInput, type Llm, llm, type SecretSource, secretSource } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { parseWithSealedTexts } from '../secrets/sealed-text.ts'
import { parseSecretPath } from '../secrets/server-secrets.ts'
import type { LlmProfiles } from './llm-profiles.ts'

type JsonPath = readonly (string | number)[]

/** What is needed to use what a client brings. */
export interface ResolveLlmDeps {
  readonly cipher: Cipher
  readonly llmProfiles: Pick<LlmProfiles, 'applyConnection'>
}

/**
 * A model of a request, ready to be asked: sealed secrets opened, with the key and the address of the connection that it names.
 * Problems `invalid` with the place of what was sealed with another key, and of a connection that is not there.
 */
export async function resolveModel(
  { cipher, llmProfiles }: ResolveLlmDeps,
  model: Llm,
  path: JsonPath,
): Promise<Llm> {
  const connected = await llmProfiles.applyConnection(parseWithSealedTexts(cipher, llm, model, path))
  if (connected !== undefined) return connected
  throw invalidInput([...path, 'provider_connection_id'], 'There is no such provider connection')
}

/**
 * Sources of secrets of a request, values opened. A Problem `invalid` besides for a relative address that is not that of a secret of
 * this server.
 */
export function resolveSecretSources(
  cipher: Cipher,
  sources: Readonly<Record<string, SecretSource>>,
  path: JsonPath,
): Record<string, SecretSource> {
  const resolved = Object.entries(sources).map(([name, sealed]) => {
    const source = parseWithSealedTexts(cipher, secretSource, sealed, [...path, name])
    const isKnown =
      source.kind !== 'LookupSecret' || URL.canParse(source.url) || isServerSecretPath(source.url)
    if (!isKnown)
      throw invalidInput([...path, name, 'url'], 'Without a host it is /api/settings/secrets/NAME')
    return [name, source] as const
  })
  return Object.fromEntries(resolved)
}

function isServerSecretPath(url: string): boolean {
  return parseSecretPath(url) !== undefined
}
