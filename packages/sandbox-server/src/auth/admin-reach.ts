import { Problem, type Scope } from '@slipway/protocol'
import type { OrgRow, UserRow, UserRows } from '@slipway/storage/control-plane'
import type { Caller } from './authenticator.ts'

type KeyOwner = Pick<Caller, 'scopes' | 'boundOrg'>

/**
 * Whether an administrator acts on rows of this organisation: with a key that is bound to one, on its own.
 */
export function isWithinReach(
  { boundOrg }: KeyOwner,
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

  async includesUser({ boundOrg }: KeyOwner, { id }: UserRow): Promise<boolean> {
    if (boundOrg === null) return true
    return (await this.#users.listOrgsOfUser(id)).some((org) => org.id === boundOrg)
  }
}

function notFound(what: string): Problem {
  return new Problem('not_found', `There is no such ${what}`)
}
