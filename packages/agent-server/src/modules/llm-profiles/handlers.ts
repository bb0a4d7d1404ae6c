import type { OpenModel } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import { type agentServerRoutes, type Llm, type LogFunction, llm, Problem } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { resolveModel } from '../../core/conversations/lifecycle/resolve-llm.ts'
import { exposeSecrets, parseExposure } from '../../core/secrets/expose-secrets.ts'
import { parseWithSealedTexts } from '../../core/secrets/sealed-text.ts'
import type { LlmProfiles } from './llm-profiles.ts'
import { withoutSecrets } from './profile-secrets.ts'
import type { SubscriptionLogin } from './subscription-login.ts'
import { validateLlm } from './validate-llm.ts'

/** Answers are redacted unless the header `X-Expose-Secrets` says otherwise. */
export function llmProfileHandlers(options: {
  readonly profiles: LlmProfiles
  readonly subscription: Pick<SubscriptionLogin, 'status'>
  readonly loadOpenModel: () => Promise<OpenModel>
  readonly cipher: Cipher
  readonly log: LogFunction
}) {
  const { profiles: llmProfiles, subscription, loadOpenModel, cipher, log } = options
  /** The saved models among the fallbacks of a model. */
  const findFallbacks = async ({ fallback_strategy }: Llm): Promise<Llm[]> => {
    const names = (fallback_strategy?.fallback_llms ?? []).filter((one) => typeof one === 'string')
    const models = await Promise.all(names.map((name) => llmProfiles.resolve(name).catch(() => undefined)))
    return models.filter((model) => model !== undefined)
  }
  return {
    async listProfiles() {
      const active = await llmProfiles.getActiveName()
      return { json: { profiles: await llmProfiles.list(), active_profile: active ?? null } }
    },
    async getProfile({ params: { name }, header }) {
      const exposure = parseExposure(header('x-expose-secrets'))
      const profile = await llmProfiles.get(name)
      if (profile === undefined) throw new Problem('not_found', `Profile '${name}' not found`)
      if (exposure === 'plaintext') log('info', 'secrets were read', { what: 'profile', name })
      const shown = exposure === 'masked' ? profile : ((await llmProfiles.resolve(name)) ?? profile)
      const config = exposeSecrets(
        { ...shown, api_key: shown.api_key ?? null, base_url: shown.base_url ?? null },
        exposure,
        {
          cipher,
          placeholder: null,
        },
      )
      return { json: { name, config, api_key_set: await llmProfiles.hasKey(profile) } }
    },
    async saveProfile({ params: { name }, body }) {
      const profile = parseWithSealedTexts(cipher, llm, body.llm, ['body', 'llm'])
      await llmProfiles.save(name, body.include_secrets ? profile : withoutSecrets(profile))
      return { status: 201, json: { name, message: `Profile '${name}' saved` } }
    },
    async deleteProfile({ params: { name } }) {
      await llmProfiles.remove(name)
      return { json: { name, message: `Profile '${name}' deleted` } }
    },
    async renameProfile({ params: { name }, body: { new_name } }) {
      await llmProfiles.rename(name, new_name)
      const done = name === new_name ? 'unchanged (same name)' : `renamed to '${new_name}'`
      return { json: { name: new_name, message: `Profile '${name}' ${done}` } }
    },
    async activateProfile({ params: { name } }) {
      const isApplied = await llmProfiles.activate(name)
      const done = isApplied ? 'activated and applied to current settings' : 'activated'
      return { json: { name, message: `Profile '${name}' ${done}`, llm_applied: isApplied } }
    },
    async validateProfile({ params: { name }, body, signal }) {
      const model =
        body.llm === undefined
          ? await llmProfiles.resolve(name)
          : await resolveModel({ cipher, models: llmProfiles }, body.llm, ['body', 'llm'])
      if (model === undefined) throw new Problem('not_found', `Profile '${name}' not found`)
      const openModel = await loadOpenModel()
      const isSignedIn = model.auth_type === 'subscription' && (await subscription.status()).connected
      const fallbacks = await findFallbacks(model)
      return { json: await validateLlm(model, signal, { openModel, isSignedIn, fallbacks }) }
    },
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}
