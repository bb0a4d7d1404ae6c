import type { Handlers } from '@slipway/http'
import { Problem, type sandboxServerRoutes } from '@slipway/protocol'
import type { UserRows } from '@slipway/storage/control-plane'
import { type Caller, getCaller } from '../auth/authenticator.ts'
import type { Accounts } from './accounts.ts'
import { profileHandlers } from './profile-handlers.ts'

/** The organisations of a caller, and what web clients look for below their addresses. */
export function ownOrganizationHandlers(deps: { readonly accounts: Accounts; readonly users: UserRows }) {
  const { accounts, users } = deps
  const profiles = profileHandlers({ accounts })
  const getOwn = async (request: { readonly caller: unknown; readonly params: { org_id: string } }) => {
    const own = await listOwn(users, getCaller(request))
    const found = own.find(({ id }) => id === request.params.org_id)
    if (found === undefined) throw new Problem('not_found', 'There is no such organisation')
    return found
  }
  return {
    async listOwnOrganizations(request) {
      const caller = getCaller(request)
      const items = await listOwn(users, caller)
      return { json: { items, current_org_id: currentOf(items, caller)?.id ?? null } }
    },
    async getOwnMembership(request) {
      const { owner, isAdmin, scopes } = getCaller(request)
      const { id, is_personal } = await getOwn(request)
      const own = is_personal || owner === null ? 'owner' : await users.getRole(id, owner)
      // Administrators of the server may what owners may.
      const role = isAdmin && own !== 'owner' ? 'admin' : (own ?? 'member')
      return {
        json: {
          org_id: id,
          user_id: owner,
          role,
          permissions: scopes.includes('write') ? ['edit_org_settings'] : [],
        },
      }
    },
    listOrganizationProfiles: (request) => getOwn(request).then(() => profiles.listUserProfiles(request)),
    getOrganizationProfile: (request) => getOwn(request).then(() => profiles.getUserProfile(request)),
    saveOrganizationProfile: (request) => getOwn(request).then(() => profiles.saveUserProfile(request)),
    deleteOrganizationProfile: (request) => getOwn(request).then(() => profiles.deleteUserProfile(request)),
    activateOrganizationProfile: (request) =>
      getOwn(request).then(() => profiles.activateUserProfile(request)),
    renameOrganizationProfile: (request) => getOwn(request).then(() => profiles.renameUserProfile(request)),
    listOrganizationProviders: (request) => getOwn(request).then(() => ({ json: { connections: [] } })),
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/** The organisation in which a caller works, the personal one of a user of none. */
export async function findOwnOrganization(users: UserRows, caller: Caller) {
  return currentOf(await listOwn(users, caller), caller)
}

function currentOf<T extends { readonly id: string }>(items: readonly T[], { org }: Caller): T | undefined {
  return items.find(({ id }) => id === org) ?? items[0]
}

/** Its id as `X-Org-Id` means what no header means (`Authenticator`). */
async function listOwn(users: UserRows, { owner, boundOrg }: Caller) {
  if (owner === null) return []
  const orgs = await users.listOrgsOfUser(owner)
  if (orgs.length > 0 || boundOrg !== null)
    return orgs
      .filter(({ id }) => boundOrg === null || id === boundOrg)
      .map(({ id, name }) => ({ id, name, is_personal: false }))
  const user = await users.getUser(owner)
  return [{ id: owner, name: user?.name ?? user?.email ?? owner, is_personal: true }]
}
