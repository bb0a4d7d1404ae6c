import { randomUUID } from 'node:crypto'
import type { Handlers } from '@slipway/http'
import {
  formatNullableInstant,
  type Instant,
  invalidInput,
  Problem,
  type sandboxServerRoutes,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import type { OrgRow, UserRows } from '@slipway/storage/control-plane'
import { AdminReach, isWithinReach } from '../auth/admin-reach.ts'
import { getCaller, isServerAdmin } from '../auth/authenticator.ts'
import type { SandboxSpecs } from '../sandboxes/state/specs.ts'
import { requireFound } from './require-found.ts'
import { userInfo } from './user-handlers.ts'

/** Organisations and their members. */
export function organizationHandlers({
  users,
  specs,
  exemptOrgs,
  now,
}: {
  readonly users: UserRows
  readonly specs: Pick<SandboxSpecs, 'find'>
  /** See `Quota`. */
  readonly exemptOrgs: readonly string[]
  readonly now: () => Instant
}) {
  const reach = new AdminReach(users)
  return {
    async listOrganizations(request) {
      const caller = getCaller(request)
      const { items, next_page_id } = isServerAdmin(caller)
        ? await users.listOrgs(request.query)
        : { items: await users.listOrgsOfUser(caller.owner ?? ''), next_page_id: null }
      const shown = items.filter(({ id }) => isWithinReach(caller, { org: id }))
      return { json: { items: shown.map(orgInfo), next_page_id } }
    },
    async createOrganization({ body }) {
      const row: OrgRow = { id: randomUUID(), ...body, created_at: now() }
      await users.addOrg(row)
      return { status: 201, json: orgInfo(row) }
    },
    async getOrganization(request) {
      const { org: row } = await reach.findOrgAs(getCaller(request), request.params.org_id, 'member')
      const is_exempt = exemptOrgs.includes(row.id)
      return { json: { ...orgInfo(row), is_exempt, ...(await users.countOfOrg(row.id)) } }
    },
    async updateOrganization(request) {
      const caller = getCaller(request)
      const { id } = (await reach.findOrgAs(caller, request.params.org_id, 'admin')).org
      if (request.body.daily_conversation_limit !== undefined && !isServerAdmin(caller))
        throw new Problem('forbidden', 'Only administrators of the server change the daily limit')
      assertKnownSpecs(specs, request.body.allowed_specs, await users.getOrg(id))
      const row = await users.updateOrg(id, definedMembers(request.body))
      return { json: orgInfo(requireFound(row, 'organisation')) }
    },
    async deleteOrganization(request) {
      const { id } = await reach.findOrg(getCaller(request), request.params.org_id)
      if (await users.removeOrg(id)) return success
      const { sandboxes, conversations } = await users.countOfOrg(id)
      throw new Problem(
        'conflict',
        `${sandboxes} sandboxes and ${conversations} conversations belong to the organisation: delete them first`,
        undefined,
        { code: 'organization_has_work', sandboxes, conversations },
      )
    },
    async listMembers(request) {
      const { org } = await reach.findOrgAs(getCaller(request), request.params.org_id, 'admin')
      const { items, next_page_id } = await users.listMembers(org.id, request.query)
      return { json: { items: items.map((row) => ({ ...userInfo(row), role: row.role })), next_page_id } }
    },
    async joinOrganization(request) {
      const { org_id, user_id } = request.params
      const caller = getCaller(request)
      const { role } = await reach.findOrgAs(caller, org_id, 'admin')
      // A member with a role may name any user, and learns nothing but whether there is one.
      if (isServerAdmin(caller)) await reach.findUser(caller, user_id)
      await users.addMember(org_id, user_id, { ...request.body, mayChangeOwners: role === 'owner' })
      return success
    },
    async leaveOrganization(request) {
      const { org_id, user_id } = request.params
      const caller = getCaller(request)
      const isOwn = caller.owner === user_id
      const { role } = await reach.findOrgAs(caller, org_id, isOwn ? 'member' : 'admin')
      const mayChangeOwners = isOwn || role === 'owner'
      if (await users.removeMember(org_id, user_id, { mayChangeOwners })) return success
      throw new Problem('not_found', 'The user is not a member of that organisation')
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

const success = { json: { success: true } }

function orgInfo({ created_at, allowed_models = null, allowed_specs = null, ...row }: OrgRow) {
  return { ...row, allowed_models, allowed_specs, created_at: formatNullableInstant(created_at) }
}

/** One that was configured when it was allowed may stay. */
function assertKnownSpecs(
  specs: Pick<SandboxSpecs, 'find'>,
  wanted: readonly string[] | null | undefined,
  org: OrgRow | undefined,
): void {
  const isUnknown = (spec: string) => specs.find(spec) === undefined && !org?.allowed_specs?.includes(spec)
  const index = wanted?.findIndex(isUnknown) ?? -1
  if (index >= 0) throw invalidInput(['body', 'allowed_specs', index], 'There is no such sandbox spec')
}
