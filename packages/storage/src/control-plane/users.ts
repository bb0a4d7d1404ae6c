import type { Instant } from '@slipway/protocol'
import type { PageQuery, RowChange, RowPage } from './rows.ts'

export interface UserRow {
  readonly id: string
  readonly name: string | null
  readonly email: string | null
  /** The default organisation of the user's requests. */
  readonly org: string | null
  readonly is_admin: boolean
  /** Conversations a day: null inherits, -1 is unlimited. */
  readonly daily_conversation_limit: number | null
  readonly created_at: Instant
}

export interface OrgRow {
  readonly id: string
  readonly name: string
  readonly daily_conversation_limit: number | null
  /** What work in it may use: names with `*` for any text, and ids of specs. Null or absent: all. */
  readonly allowed_models?: readonly string[] | null | undefined
  readonly allowed_specs?: readonly string[] | null | undefined
  readonly created_at: Instant
}

/** The owner of the documents of an organisation, which is the id of no user. */
export function documentsOfOrg(id: string): string {
  return `organization:${id}`
}

/** The highest first. */
export const orgRoles = ['owner', 'admin', 'member'] as const
export type OrgRole = (typeof orgRoles)[number]

export type MemberRow = UserRow & { readonly role: OrgRole }

export interface MemberChange {
  /** Absent: a new member becomes `member`, another one keeps the role. */
  readonly role?: OrgRole | undefined
  /** Otherwise a Problem `forbidden` where an owner is made or changed. */
  readonly mayChangeOwners?: boolean | undefined
}

export interface ApiKeyRow {
  readonly id: string
  /** SHA-256 of the key in hex. The key itself is not stored. */
  readonly hash: string
  readonly user: string
  /** The key works only in this organisation; null: in any of the user's. */
  readonly org: string | null
  readonly name: string | null
  /** What the key may do: `read`, `write`, `admin`. */
  readonly scopes: readonly string[]
  readonly not_before: Instant | null
  readonly expires_at: Instant | null
  readonly created_at: Instant
  readonly used_at: Instant | null
  /** Id of the key that created it; null for keys of the server. It is removed with that key. */
  readonly created_by: string | null
}

/** Limits of what a user stores and runs, in all. Null inherits the server's, -1 is unlimited. */
export interface UserLimits {
  readonly max_conversations: number | null
  readonly max_stored_mb: number | null
  /** Sandboxes that run at a time. */
  readonly max_sandboxes: number | null
}

export interface OrgCounts {
  readonly members: number
  readonly sandboxes: number
  readonly conversations: number
}

/** Users, organisations, memberships and API keys. */
export interface UserRows {
  /** False when the id exists; nothing changes then. */
  addUser(row: UserRow): Promise<boolean>
  getUser(id: string): Promise<UserRow | undefined>
  listUsers(query: PageQuery): Promise<RowPage<UserRow>>
  updateUser(id: string, members: RowChange<UserRow>): Promise<UserRow | undefined>
  /** Removes keys, memberships, documents and quota too, but no sandboxes, conversations or tasks. */
  removeUser(id: string): Promise<boolean>
  addOrg(row: OrgRow): Promise<boolean>
  getOrg(id: string): Promise<OrgRow | undefined>
  listOrgs(query: PageQuery): Promise<RowPage<OrgRow>>
  updateOrg(id: string, members: RowChange<OrgRow>): Promise<OrgRow | undefined>
  /** What belongs to an organisation. */
  countOfOrg(id: string): Promise<OrgCounts>
  /**
   * Removes memberships and keys of the organisation too; users lose it as their default one.
   * With sandboxes or conversations nothing changes. False when there is no such organisation, or work of it.
   */
  removeOrg(id: string): Promise<boolean>
  /** The members of an organisation, the newest users first. */
  listMembers(org: string, query: PageQuery): Promise<RowPage<MemberRow>>
  /** Those who may change an organisation: owners first. */
  listManagers(org: string): Promise<readonly MemberRow[]>
  getRole(org: string, user: string): Promise<OrgRole | undefined>
  /** What the user may store and run; null members inherit. */
  getLimits(user: string): Promise<UserLimits>
  /** Absent members stay. A Problem `not_found` when there is no such user. */
  setLimits(user: string, limits: Partial<UserLimits>): Promise<UserLimits>
  /**
   * Idempotent; also changes the role. Problems: `not_found` when there is no such organisation or user, and
   * `conflict` where the last owner, or without one the last admin, would be lowered.
   */
  addMember(org: string, user: string, change?: MemberChange): Promise<void>
  /**
   * Removes the member's keys of the organisation too; the user loses it as the default one. Problems as of
   * `addMember`.
   */
  removeMember(org: string, user: string, change?: Omit<MemberChange, 'role'>): Promise<boolean>
  listOrgsOfUser(user: string): Promise<readonly OrgRow[]>
  /** A Problem `not_found` when there is no such user, a plain Error when the id or the hash exists. */
  addKey(row: ApiKeyRow): Promise<void>
  findKeyByHash(hash: string): Promise<ApiKeyRow | undefined>
  /** Newest first. */
  listKeys(user: string): Promise<readonly ApiKeyRow[]>
  countKeys(): Promise<number>
  /** Never moves `used_at` back; does nothing for a removed key. */
  markKeyUsed(id: string, used_at: Instant): Promise<void>
  /** Removes a key and all keys that were created with it. False when the user has no such key. */
  removeKey(user: string, id: string): Promise<boolean>
  /**
   * Adds a key in place of another, which ends at `endsAt` with all keys that were created with it, those
   * that end earlier at their time; null: it is removed with them. Problems: `not_found` without the old
   * key, and `forbidden` when the new key would be created by one of those.
   */
  replaceKey(id: string, row: ApiKeyRow, endsAt: Instant | null): Promise<void>
  /** Removes all keys of a user, and keeps the user. */
  removeKeys(user: string): Promise<void>
}
