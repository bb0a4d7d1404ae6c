import type { Handlers } from '@slipway/http'
import { Problem, type sandboxServerRoutes, toLlmJson } from '@slipway/protocol'
import { redact, redactedText } from '@slipway/shared/redaction'
import type { UserRows } from '@slipway/storage/control-plane'
import { getCaller, type SandboxKeys } from '../auth/authenticator.ts'
import type { Accounts } from './accounts.ts'
import { findOwnOrganization } from './own-organization-handlers.ts'
import { toUserSettingsJson } from './settings.ts'

/** Settings of users. Only `/users/me` returns secrets: to a running sandbox of the user. */
export function settingsHandlers(deps: {
  readonly accounts: Accounts
  readonly users: UserRows
  readonly sandboxes: SandboxKeys
}) {
  const { accounts, users, sandboxes } = deps
  const { userSettings, gitProviders, llmProfiles } = accounts
  const getRedactedSettings = async (owner: string | null, mask: string | null) => {
    const settings = await userSettings.read(owner)
    return {
      ...absentMembers,
      ...redact(toUserSettingsJson(settings), mask),
      llm_profiles: await showProfiles(llmProfiles, owner, mask),
      llm_api_key_set: settings.agent_settings.llm?.api_key !== undefined,
      search_api_key_set: typeof settings.search_api_key === 'string',
      provider_tokens_set: Object.fromEntries(
        Object.entries(await gitProviders.read(owner))
          .filter(([, { token }]) => token)
          .map(([name, { host }]) => [name, host ?? null]),
      ),
    }
  }
  return {
    async me(request) {
      const caller = getCaller(request)
      const { owner, isAdmin, scopes } = caller
      const isExposed = request.query.expose_secrets
      if (isExposed && !scopes.includes('write'))
        throw new Problem('forbidden', 'This key may not read secrets: it needs the scope write.')
      if (isExposed) await requireRunningSandboxKey(sandboxes, owner, request.header('x-session-api-key'))
      const user = owner === null ? undefined : await users.getUser(owner)
      const organisation = await findOwnOrganization(users, caller)
      const settings = await getRedactedSettings(owner, redactedText)
      return {
        json: {
          ...settings,
          ...(isExposed ? await exposeSettings(accounts, owner) : {}),
          id: owner,
          name: user?.name ?? null,
          email: user?.email ?? null,
          org_id: organisation?.id ?? null,
          org_name: organisation?.name ?? null,
          role: isAdmin ? 'admin' : 'member',
          permissions: [...scopes, ...scopes.flatMap((scope) => permissionsOf[scope] ?? [])],
        },
      }
    },
    async getSettings(request) {
      return { json: await getRedactedSettings(getCaller(request).owner, null) }
    },
    async changeSettings(request) {
      const { body } = request
      const keys = ['agent_settings', 'conversation_settings'].filter((name) => name in body)
      if (keys.length > 0)
        return { status: 422, json: { error: `Send ${keys.map((name) => `${name}_diff`).join(', ')}`, keys } }
      try {
        await userSettings.update(getCaller(request).owner, body)
      } catch (error) {
        if (!(error instanceof Problem) || error.issues === undefined) throw error
        const { issues } = error
        const texts = issues.map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`)
        return { status: 400, json: { error: texts.join('; '), detail: issues } }
      }
      return { json: { message: 'The settings are stored.' } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/** What programs of the reference look for before they serve a caller. */
const permissionsOf: Readonly<Record<string, string>> = {
  read: 'view_automations',
  write: 'manage_automations',
}

/** Members that clients of the reference read, of what was never set or this server does not have. */
const absentMembers = {
  ...{ language: null, user_version: null, email: null, email_verified: null },
  ...{ git_user_name: null, git_user_email: null, disabled_skills: null, default_sandbox_spec_id: null },
  ...{ search_api_key: null, sandbox_api_key: null, max_budget_per_task: null },
  ...{ sandbox_base_container_image: null, sandbox_runtime_container_image: null },
  ...{ remote_runtime_resource_factor: null, user_consents_to_analytics: null },
  ...{ enable_sound_notifications: false, enable_proactive_conversation_starters: true, v1_enabled: true },
  ...{ active_agent_profile_id: null, active_agent_profile_revision: null },
  ...{ registered_marketplaces: [], inherited_marketplaces: [], secrets_store: { provider_tokens: {} } },
} as const

/** A name may sound like that of a secret: each profile is redacted on its own. */
async function showProfiles(llmProfiles: Accounts['llmProfiles'], owner: string | null, mask: string | null) {
  const { profiles, active } = await llmProfiles.readAll(owner)
  return {
    profiles: Object.fromEntries(
      Object.entries(profiles).map(([name, model]) => [name, redact(toLlmJson(model), mask)]),
    ),
    active,
  }
}

/** With every secret: the model also by the names that the Python SDK reads. */
async function exposeSettings({ userSettings, llmProfiles }: Accounts, owner: string | null) {
  const settings = await userSettings.read(owner)
  const { model = null, api_key = null, base_url = null } = settings.agent_settings.llm ?? {}
  return {
    ...toUserSettingsJson(settings),
    ...{ llm_model: model, llm_api_key: api_key, llm_base_url: base_url },
    llm_profiles: await llmProfiles.readAll(owner),
  }
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
