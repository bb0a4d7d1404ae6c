import { invalidInput, type Llm, llm, type SecretSource, secretSource } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { parseWithSealedTexts } from '../../secrets/sealed-text.ts'
import { parseSecretPath } from '../../secrets/server-secrets.ts'
import type { ModelSource } from '../parts.ts'

type JsonPath = readonly (string | number)[]

export interface ResolveLlmDeps {
  readonly cipher: Cipher
  readonly models: Pick<ModelSource, 'applyConnection'>
}

/**
 * A model with sealed secrets opened and the key and base URL of its connection. A Problem `invalid` has the
 * place of a secret sealed with another key, or of an unknown connection.
 */
export async function resolveModel(
  { cipher, models }: ResolveLlmDeps,
  model: Llm,
  path: JsonPath,
): Promise<Llm> {
  const connected = await models.applyConnection(parseWithSealedTexts(cipher, llm, model, path))
  if (connected !== undefined) return connected
  throw invalidInput([...path, 'provider_connection_id'], 'There is no such provider connection')
}

/**
 * The secret sources of a request, unsealed. A Problem `invalid` also for a relative URL of no server secret.
 */
export function resolveSecretSources(
  cipher: Cipher,
  sources: Readonly<Record<string, SecretSource>>,
  path: JsonPath,
): Record<string, SecretSource> {
  const resolved = Object.entries(sources).map(([name, sealed]) => {
    const source = parseWithSealedTexts(cipher, secretSource, sealed, [...path, name])
    const isKnown =
      source.kind !== 'LookupSecret' || URL.canParse(source.url) || parseSecretPath(source.url) !== undefined
    if (!isKnown)
      throw invalidInput([...path, name, 'url'], 'Without a host it is /api/settings/secrets/NAME')
    return [name, source] as const
  })
  return Object.fromEntries(resolved)
}
