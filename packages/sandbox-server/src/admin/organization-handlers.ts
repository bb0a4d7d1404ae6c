import { randomUUID } from 'node:crypto'
import type { Handlers } from '@slipway/http'
import { formatNullableInstant, type Instant, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import type { OrgRow, UserRows } from '@slipway/storage/control-plane'
import { AdminReach, isWithinReach } from '../auth/admin-reach.ts'
import { getCaller } from '../auth/authenticator.ts'
import { requireFound } from './require-found.ts'
import { userInfo } from './user-handlers.ts'

/** Organisations and their members. */
export function organizationHandlers({
  users,
  exemptOrgs,
  now,
}: {
  readonly users: UserRows
  /** See `Quota`. */
  readonly exemptOrgs: readonly string[]
  readonly now: () => Instant
}) {
  const reach = new AdminReach(users)
  return {
    async listOrganizations(request) {
      const { items, next_page_id } = await users.listOrgs(request.query)
      const shown = items.filter(({ id }) => isWithinReach(getCaller(request), { org: id }))
      return { json: { items: shown.map(orgInfo), next_page_id } }
    },
    async createOrganization({ body }) {
      const row: OrgRow = { id: randomUUID(), ...body, created_at: now() }
      await users.addOrg(row)
      return { status: 201, json: orgInfo(row) }
    },
    async getOrganization(request) {
      const row = await reach.findOrg(getCaller(request), request.params.org_id)
      const is_exempt = exemptOrgs.includes(row.id)
      return { json: { ...orgInfo(row), is_exempt, ...(await users.countOfOrg(row.id)) } }
    },
    async updateOrganization(request) {
      const { id } = await reach.findOrg(getCaller(request), request.params.org_id)
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
      const { id } = await reach.findOrg(getCaller(request), request.params.org_id)
      const { items, next_page_id } = await users.listMembers(id, request.query)
      return { json: { items: items.map(userInfo), next_page_id } }
    },
    async joinOrganization(request) {
      const { org_id, user_id } = request.params
      await reach.findOrg(getCaller(request), org_id)
      await reach.findUser(getCaller(request), user_id)
      await users.addMember(org_id, user_id)
      return success
    },
    async leaveOrganization(request) {
      const { org_id, user_id } = request.params
      await reach.findOrg(getCaller(request), org_id)
      if (await users.removeMember(org_id, user_id)) return success
      throw new Problem('not_found', 'The user is not a member of that organisation')
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

const success = { json: { success: true } }

function orgInfo({ created_at, ...row }: OrgRow) {
  return { ...row, created_at: formatNullableInstant(created_at) }
}
