import type { Handlers } from '@slipway/http'
import { type agentRoutes, Problem } from '@slipway/protocol'
import { shown, withoutSecrets } from '../profile-secrets.ts'
import type { Profiles } from '../profiles.ts'
import { validate } from '../validate.ts'

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

/** No answer holds a secret. */
export function profileHandlers(options: {
  readonly profiles: Profiles
  /** Called by what changes something. */
  readonly touch: () => void
}): Handlers<Routes> {
  const { profiles, touch } = options
  return {
    async listProfiles() {
      const active = await profiles.active()
      return { json: { profiles: await profiles.list(), active_profile: active ?? null } }
    },
    async getProfile({ params: { name } }) {
      const model = await profiles.get(name)
      if (model === undefined) throw new Problem('not_found', `Profile not found: ${name}`)
      const config = { ...shown(model), api_key: null }
      return { json: { name, config, api_key_set: model.api_key !== undefined } }
    },
    async saveProfile({ params: { name }, body }) {
      touch()
      await profiles.save(name, body.include_secrets ? body.llm : withoutSecrets(body.llm))
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
      return { json: await validate(body.llm, signal) }
    },
  }
}
