import { Problem, type Scope } from '@slipway/protocol'
import {
  type OrgRole,
  type OrgRow,
  orgRoles,
  type UserRow,
  type UserRows,
} from '@slipway/storage/control-plane'
import { type Caller, isServerAdmin } from './authenticator.ts'

type KeyOwner = Pick<Caller, 'scopes' | 'boundOrg'>

/**
 * Whether an administrator acts on rows of this organisation: with a key that is bound to one, on its own.
 */
export function isWithinReach(
  { boundOrg }: Pick<KeyOwner, 'boundOrg'>,
  row: { readonly org?: string | null | undefined },
): boolean {
  return boundOrg === null || row.org === boundOrg
}

/** A Problem `forbidden` for a new key with more rights than the one that it is made with. */
export function assertMayGrant(
  { scopes, boundOrg, isAdmin }: KeyOwner & Pick<Caller, 'isAdmin'>,
  request: { readonly scopes: readonly Scope[]; readonly org_id?: string | undefined },
): void {
  // An administrator gives it, also with a key that is older than the scope. Holders do not pass it on.
  const isOperateGiven = isAdmin && scopes.includes('admin')
  const missing = request.scopes.find((scope) =>
    scope === 'operate' ? !isOperateGiven : !scopes.includes(scope),
  )
  if (missing !== undefined)
    throw new Problem('forbidden', `A key cannot create one with more rights: it has no scope ${missing}`)
  if (boundOrg !== null && request.org_id !== boundOrg)
    throw new Problem(
      'forbidden',
      'A key of an organisation creates keys of that organisation only: set org_id',
    )
}

/** What administrators find of users and organisations. A Problem `not_found` for all others. */
export class AdminReach {
  readonly #users: UserRows

  constructor(users: UserRows) {
    this.#users = users
  }

  /** A user, of the key's organisation if it is bound to one. */
  async findUser(caller: KeyOwner, id: string): Promise<UserRow> {
    const user = await this.#users.getUser(id)
    if (user === undefined || !(await this.includesUser(caller, user))) throw notFound('user')
    return user
  }

  /**
   * A user whom the caller may change. With a key of an organisation: one who is in no other, because a
   * change concerns all, and no administrator.
   */
  async findUserToChange(caller: KeyOwner, id: string): Promise<UserRow> {
    const user = await this.findUser(caller, id)
    if (caller.boundOrg === null) return user
    const orgs = await this.#users.listOrgsOfUser(id)
    if (user.is_admin || orgs.length > 1)
      throw new Problem(
        'forbidden',
        'A key of an organisation may not change administrators and users of other organisations',
      )
    return user
  }

  async findOrg(caller: KeyOwner, id: string): Promise<OrgRow> {
    const org = await this.#users.getOrg(id)
    if (org === undefined || !isWithinReach(caller, { org: id })) throw notFound('organisation')
    return org
  }

  /**
   * An organisation for a member whose role is `needed` or higher; administrators of the server have the
   * rights of owners. Problems: `not_found` for strangers, `forbidden` with a lower role.
   */
  async findOrgAs(caller: Caller, id: string, needed: OrgRole): Promise<{ org: OrgRow; role: OrgRole }> {
    const org = await this.findOrg(caller, id)
    if (isServerAdmin(caller)) return { org, role: 'owner' }
    const role = caller.owner === null ? undefined : await this.#users.getRole(id, caller.owner)
    if (role === undefined) throw notFound('organisation')
    if (orgRoles.indexOf(role) > orgRoles.indexOf(needed))
      throw new Problem('forbidden', `This needs the role ${needed} in the organisation; yours is ${role}`)
    return { org, role }
  }

  /**
   * The caller as one whose key is bound to an organisation, which a member names whose role is `admin` or
   * higher; an administrator of the server stays as is.
   */
  async asManager(caller: Caller, org: string | undefined): Promise<Caller> {
    if (isServerAdmin(caller)) return caller
    if (org === undefined)
      throw new Problem(
        'forbidden',
        'Name the organisation (org_id): only administrators of the server see all',
      )
    await this.findOrgAs(caller, org, 'admin')
    return { ...caller, boundOrg: org }
  }

  async includesUser({ boundOrg }: KeyOwner, { id }: UserRow): Promise<boolean> {
    if (boundOrg === null) return true
    return (await this.#users.listOrgsOfUser(id)).some((org) => org.id === boundOrg)
  }
}

function notFound(what: string): Problem {
  return new Problem('not_found', `There is no such ${what}`)
}
