import type { Handlers } from '@slipway/http'
import { type Llm, llm, Problem, type sandboxServerRoutes, toLlmJson } from '@slipway/protocol'
import { ownMember } from '@slipway/shared/json'
import { redact } from '@slipway/shared/redaction'
import { getCaller } from '../auth/authenticator.ts'
import type { Accounts } from './accounts.ts'

/** LLM profiles of users, without their secrets. */
export function profileHandlers({ accounts }: { readonly accounts: Accounts }) {
  const { llmProfiles } = accounts
  return {
    async listUserProfiles(request) {
      const { profiles, active } = await llmProfiles.readAll(getCaller(request).owner)
      const summaries = Object.entries(profiles).map(([name, model]) => profileSummary(name, model))
      return { json: { profiles: summaries, active_profile: active } }
    },
    async getUserProfile(request) {
      const { name } = request.params
      const model = await llmProfiles.get(getCaller(request).owner, name)
      const config = { ...redact(toLlmJson(model)), api_key: null }
      return { json: { name, config, api_key_set: model.api_key !== undefined } }
    },
    async saveUserProfile(request) {
      const { owner } = getCaller(request)
      const { name } = request.params
      const { preserve_existing_api_key, include_secrets } = request.body
      const requested = request.body.llm ?? (await currentModel(accounts, owner))
      const previous = ownMember((await llmProfiles.readAll(owner)).profiles, name)
      const api_key = requested.api_key ?? (preserve_existing_api_key ? previous?.api_key : undefined)
      const model = include_secrets
        ? { ...requested, ...(api_key === undefined ? {} : { api_key }) }
        : llm.parse(withoutNulls(redact(requested)))
      await llmProfiles.save(owner, name, model)
      return { status: 201, json: { name, message: 'The profile is saved.' } }
    },
    async deleteUserProfile(request) {
      const { name } = request.params
      const existed = await accounts.removeProfile(getCaller(request).owner, name)
      return { json: { name, message: existed ? 'The profile is deleted.' : 'There was no such profile.' } }
    },
    async activateUserProfile(request) {
      const { name } = request.params
      const { model } = await accounts.activateProfile(getCaller(request).owner, name)
      return { json: { name, message: 'New conversations use this model.', model } }
    },
    async renameUserProfile(request) {
      const { new_name } = request.body
      await llmProfiles.rename(getCaller(request).owner, request.params.name, new_name)
      return { json: { name: new_name, message: 'The profile is renamed.' } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

async function currentModel(accounts: Accounts, owner: string | null): Promise<Llm> {
  const parsed = llm.safeParse((await accounts.userSettings.read(owner)).agent_settings.llm)
  if (parsed.success) return parsed.data
  throw new Problem('not_found', 'The settings have no model: set llm in the request')
}

export function profileSummary(name: string, model: Llm) {
  const { base_url } = redact(model)
  return {
    name,
    model: model.model,
    base_url: typeof base_url === 'string' ? base_url : null,
    api_key_set: model.api_key !== undefined,
  }
}

function withoutNulls(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null))
}
