import type { Handlers } from '@slipway/http'
import { type Llm, llm, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import { ownMember } from '@slipway/shared/json'
import { redact } from '@slipway/shared/redaction'
import type { UserRows } from '@slipway/storage/control-plane'
import type { Accounts } from '../accounts/accounts.ts'
import { getCaller, type SandboxKeys } from '../auth/authenticator.ts'

/** Settings and LLM profiles of users. Only `/users/me` returns secrets: to a running sandbox of the user. */
export function settingsHandlers(deps: {
  readonly accounts: Accounts
  readonly users: UserRows
  readonly sandboxes: SandboxKeys
}) {
  const { accounts, users, sandboxes } = deps
  const { userSettings, llmProfiles, gitProviders } = accounts
  const getRedactedSettings = async (owner: string | null) => {
    const settings = await userSettings.read(owner)
    return {
      ...redact(settings),
      llm_api_key_set: settings.agent_settings.llm?.api_key !== undefined,
      search_api_key_set: typeof settings.search_api_key === 'string',
      provider_tokens_set: Object.fromEntries(
        Object.entries(await gitProviders.read(owner)).map(([name, { host }]) => [name, host ?? null]),
      ),
    }
  }
  return {
    async me(request) {
      const { owner, org, isAdmin, scopes } = getCaller(request)
      const isExposed = request.query.expose_secrets
      if (isExposed && !scopes.includes('write'))
        throw new Problem('forbidden', 'This key may not read secrets: it needs the scope write.')
      if (isExposed) await requireRunningSandboxKey(sandboxes, owner, request.header('x-session-api-key'))
      const [user, organisation] = await Promise.all([
        owner === null ? undefined : users.getUser(owner),
        org === undefined ? undefined : users.getOrg(org),
      ])
      const settings = await getRedactedSettings(owner)
      return {
        json: {
          ...settings,
          ...(isExposed ? await userSettings.read(owner) : {}),
          id: owner,
          name: user?.name ?? null,
          email: user?.email ?? null,
          org_id: org ?? null,
          org_name: organisation?.name ?? null,
          role: isAdmin ? 'admin' : 'member',
          permissions: scopes,
        },
      }
    },
    async getSettings(request) {
      return { json: await getRedactedSettings(getCaller(request).owner) }
    },
    async changeSettings(request) {
      await userSettings.update(getCaller(request).owner, request.body)
      return { json: { message: 'The settings are stored.' } }
    },
    async listUserProfiles(request) {
      const { profiles, active } = await llmProfiles.readAll(getCaller(request).owner)
      const summaries = Object.entries(profiles).map(([name, model]) => profileSummary(name, model))
      return { json: { profiles: summaries, active_profile: active } }
    },
    async getUserProfile(request) {
      const { name } = request.params
      const model = await llmProfiles.get(getCaller(request).owner, name)
      const config = { ...redact(model), api_key: null }
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
      const existed = await llmProfiles.remove(getCaller(request).owner, name)
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

/** Wire 1.7: secrets need the API key and the key of a running sandbox of the same user. */
async function requireRunningSandboxKey(
  sandboxes: SandboxKeys,
  owner: string | null,
  key: string | undefined,
): Promise<void> {
  const row = key === undefined ? undefined : await sandboxes.findByKey(key)
  if (row === undefined || row.status !== 'RUNNING') {
    throw new Problem('unauthorized', 'The session key of a running sandbox is required in X-Session-API-Key')
  }
  if (row.owner !== owner) throw new Problem('forbidden', 'The sandbox belongs to another user')
}

async function currentModel(accounts: Accounts, owner: string | null): Promise<Llm> {
  const parsed = llm.safeParse((await accounts.userSettings.read(owner)).agent_settings.llm)
  if (parsed.success) return parsed.data
  throw new Problem('not_found', 'The settings have no model: set llm in the request')
}

function profileSummary(name: string, model: Llm) {
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
