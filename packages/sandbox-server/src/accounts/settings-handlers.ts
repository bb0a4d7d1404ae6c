import type { Handlers } from '@slipway/http'
import { Problem, type sandboxServerRoutes } from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'
import type { UserRows } from '@slipway/storage/control-plane'
import { getCaller, type SandboxKeys } from '../auth/authenticator.ts'
import type { Accounts } from './accounts.ts'

/** Settings of users. Only `/users/me` returns secrets: to a running sandbox of the user. */
export function settingsHandlers(deps: {
  readonly accounts: Accounts
  readonly users: UserRows
  readonly sandboxes: SandboxKeys
}) {
  const { accounts, users, sandboxes } = deps
  const { userSettings, gitProviders } = accounts
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
