import { randomUUID } from 'node:crypto'
import type { Handlers } from '@slipway/http'
import {
  type Erasure,
  formatNullableInstant,
  type Instant,
  Problem,
  type sandboxServerRoutes,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import type { UserRow, UserRows } from '@slipway/storage/control-plane'
import { AdminReach } from '../auth/admin-reach.ts'
import { type Caller, getCaller } from '../auth/authenticator.ts'
import { requireFound } from './require-found.ts'

/** Users in the reach of the caller. */
export function userHandlers(deps: {
  readonly users: UserRows
  readonly removeUser: (id: string, options: { readonly isWithSandboxes: boolean }) => Promise<void>
  readonly eraseUser: (id: string, signal: AbortSignal) => Promise<Erasure>
  /** The certificate of a user who is erased already. */
  readonly repeatErasure: (id: string, signal: AbortSignal) => Promise<Erasure | undefined>
  readonly now: () => Instant
}) {
  const { users, now } = deps
  const reach = new AdminReach(users)
  return {
    async listUsers(request) {
      const { items, next_page_id } = await users.listUsers(request.query)
      const isShown = await Promise.all(items.map((user) => reach.includesUser(getCaller(request), user)))
      return { json: { items: items.filter((_, index) => isShown[index]).map(userInfo), next_page_id } }
    },
    async createUser(request) {
      const caller = getCaller(request)
      const { name, email, is_admin, daily_conversation_limit } = request.body
      const org_id = request.body.org_id ?? caller.boundOrg ?? undefined
      if (org_id !== undefined) await reach.findOrg(caller, org_id)
      assertMaySetAdmin(caller, is_admin)
      const row: UserRow = {
        id: randomUUID(),
        name: name ?? null,
        email: email ?? null,
        org: org_id ?? null,
        is_admin,
        daily_conversation_limit,
        created_at: now(),
      }
      await users.addUser(row)
      if (org_id !== undefined) await users.addMember(org_id, row.id)
      return { status: 201, json: userInfo(row) }
    },
    async patchUser(request) {
      const caller = getCaller(request)
      const { org_id, ...members } = request.body
      const { id: user_id } = await reach.findUserToChange(caller, request.params.user_id)
      assertMaySetAdmin(caller, members.is_admin)
      if (org_id) {
        await reach.findOrg(caller, org_id)
        await users.addMember(org_id, user_id)
      }
      const change = { ...definedMembers(members), ...(org_id === undefined ? {} : { org: org_id }) }
      return { json: userInfo(requireFound(await users.updateUser(user_id, change), 'user')) }
    },
    async deleteUser(request) {
      const { user_id } = request.params
      const caller = getCaller(request)
      await reach.findUser(caller, user_id)
      if (caller.owner === user_id) throw new Problem('conflict', 'Users cannot remove themselves')
      await reach.findUserToChange(caller, user_id)
      await deps.removeUser(user_id, { isWithSandboxes: request.query.with_sandboxes })
      return success
    },
    async eraseUser(request) {
      const { user_id } = request.params
      const caller = getCaller(request)
      if (caller.boundOrg === null && (await users.getUser(user_id)) === undefined) {
        const erasure = await deps.repeatErasure(user_id, request.signal)
        if (erasure !== undefined) return { json: erasure }
      }
      if (caller.owner === user_id) throw new Problem('conflict', 'Users cannot erase themselves')
      await reach.findUserToChange(caller, user_id)
      return { json: await deps.eraseUser(user_id, request.signal) }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

const success = { json: { success: true } }

function assertMaySetAdmin({ boundOrg }: Caller, isAdmin: boolean | undefined): void {
  if (isAdmin === true && boundOrg !== null)
    throw new Problem('forbidden', 'A key of an organisation may not make administrators')
}

export function userInfo({ org, created_at, ...row }: UserRow) {
  return { ...row, org_id: org, created_at: formatNullableInstant(created_at) }
}
