import type { Handlers } from '@slipway/http'
import { type agentRoutes, type Log, llm, Problem } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import type { Profiles } from '../../profiles/llm-profiles.ts'
import { withoutSecrets } from '../../profiles/profile-secrets.ts'
import { takenModel } from '../../profiles/resolve-llm.ts'
import { validate } from '../../profiles/validate-llm.ts'
import { exposed, exposureOf } from '../../secrets/expose-secrets.ts'
import { withOpened } from '../../secrets/sealed-text.ts'

type Routes = Pick<
  typeof agentRoutes,
  | 'listProfiles'
  | 'getProfile'
  | 'saveProfile'
  | 'deleteProfile'
  | 'renameProfile'
  | 'activateProfile'
  | 'validateProfile'
>

/** No answer holds a secret unless its header asks for it. */
export function profileHandlers(options: {
  readonly profiles: Profiles
  readonly cipher: Cipher
  readonly log: Log
  /** Called by what changes something. */
  readonly touch: () => void
}): Handlers<Routes> {
  const { profiles, cipher, log, touch } = options
  return {
    async listProfiles() {
      const active = await profiles.active()
      return { json: { profiles: await profiles.list(), active_profile: active ?? null } }
    },
    async getProfile({ params: { name }, header }) {
      const exposure = exposureOf(header('x-expose-secrets'))
      const model = await profiles.get(name)
      if (model === undefined) throw new Problem('not_found', `Profile not found: ${name}`)
      if (exposure === 'plaintext') log('info', 'secrets were read', { what: 'profile', name })
      const config = exposed({ ...model, api_key: model.api_key ?? null }, exposure, { cipher, stars: null })
      return { json: { name, config, api_key_set: await profiles.hasKey(model) } }
    },
    async saveProfile({ params: { name }, body }) {
      touch()
      const model = withOpened(cipher, llm, body.llm, ['body', 'llm'])
      await profiles.save(name, body.include_secrets ? model : withoutSecrets(model))
      return { status: 201, json: { name, message: 'The profile is saved.' } }
    },
    async deleteProfile({ params: { name } }) {
      touch()
      const message = (await profiles.remove(name)) ? 'The profile is deleted.' : 'There was no such profile.'
      return { json: { name, message } }
    },
    async renameProfile({ params: { name }, body: { new_name } }) {
      touch()
      await profiles.rename(name, new_name)
      return { json: { name: new_name, message: 'The profile is renamed.' } }
    },
    async activateProfile({ params: { name } }) {
      touch()
      await profiles.activate(name)
      return { json: { name, message: 'The profile is active.', llm_applied: true } }
    },
    async validateProfile({ body, signal }) {
      return {
        json: await validate(await takenModel({ cipher, profiles }, body.llm, ['body', 'llm']), signal),
      }
    },
  }
}
