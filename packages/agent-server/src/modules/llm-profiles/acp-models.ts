import { discoverAcpModels, Secrets } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import { type acpRoutes, invalidInput, isAcpAgent } from '@slipway/protocol'
import { Semaphore } from '@slipway/shared/async'
import type { Cipher } from '@slipway/storage'
import { resolveSecretSources } from '../../core/conversations/lifecycle/resolve-llm.ts'
import { buildAcpAgent } from '../../core/conversations/lifecycle/start-request.ts'
import { openSealedTexts } from '../../core/secrets/sealed-text.ts'
import { parseSecretPath, type ServerSecrets } from '../../core/secrets/server-secrets.ts'

/** Programs that are asked at the same time. */
const maxPrograms = 2
const place = ['body', 'agent_settings']

/** Asks external agents for their models. */
export function acpModelHandlers(options: {
  readonly cipher: Cipher
  readonly environment: Readonly<Record<string, string>>
  readonly serverSecrets: Pick<ServerSecrets, 'getValue'>
  readonly lookupFetch: typeof fetch
  readonly redactedValues: readonly string[]
}): Handlers<typeof acpRoutes> {
  const { cipher, environment, serverSecrets, lookupFetch, redactedValues } = options
  const slots = new Semaphore(maxPrograms)
  return {
    async discoverAcpModels({ body, signal }) {
      const settings = Object(openSealedTexts(cipher, body.agent_settings, place))
      if (settings.agent_kind !== 'acp')
        throw invalidInput([...place, 'agent_kind'], "Input should be 'acp'", 'literal_error')
      const agent = buildAcpAgent(settings, place)
      if (!isAcpAgent(agent)) throw invalidInput(place, 'The settings describe no external agent')
      const sources = resolveSecretSources(cipher, body.secrets ?? {}, ['body', 'secrets'])
      const secrets = new Secrets(sources, {
        fetch: lookupFetch,
        resolveServerSecret: async (url) => {
          const name = parseSecretPath(url)
          return name === undefined ? undefined : await serverSecrets.getValue(name)
        },
      })
      secrets.addValuesFrom(agent)
      for (const value of redactedValues) secrets.addValue(value)
      const release = await slots.acquire(signal)
      try {
        const { available, current, failure } = await discoverAcpModels(
          agent,
          { environment, secrets },
          signal,
        )
        return {
          json: {
            available_models: [...available],
            current_model_id: current ?? null,
            error: failure ?? null,
          },
        }
      } finally {
        release()
      }
    },
  }
}
