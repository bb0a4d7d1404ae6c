import type { Instant } from '@slipway/protocol'
import type { DocumentStore } from '../documents/document-store.ts'

/** What the control plane wants of a sandbox. Written before anything is done for it. */
export type DesiredState = 'running' | 'paused' | 'gone'

/** A sandbox. The row is there before anything of the sandbox is, and goes after everything of it has gone. */
export interface SandboxRow {
  readonly id: string
  /** Id of a user; null for one of the warm pool that nobody has claimed. */
  readonly owner: string | null
  readonly org: string | null
  readonly spec: string
  readonly backend: string
  readonly wanted: DesiredState
  /** What was last seen: STARTING, RUNNING, PAUSED, ERROR or MISSING. */
  readonly status: string
  /** For its owner: why it is in this status. Holds no secret. */
  readonly detail: string | null
  /** SHA-256 of its session key in hex; null when it has none yet. */
  readonly key_hash: string | null
  /** Session key and order, sealed by the caller. */
  readonly sealed: Buffer
  /** Of the backend: names one start of its processes; null before the first. */
  readonly epoch: string | null
  /** JSON text of where it is reached. */
  readonly addresses: string
  readonly created_at: Instant
  /** When `status` changed last. */
  readonly changed_at: Instant
  /** When somebody used it last. */
  readonly used_at: Instant
}

/** A conversation as the control plane knows it; its events are in the log of the same id. */
export interface AppConversationRow {
  /** UUID, lower case with dashes. */
  readonly id: string
  readonly owner: string | null
  readonly org: string | null
  readonly sandbox: string
  readonly parent: string | null
  readonly title: string | null
  /** Last execution status that came home; null before. */
  readonly status: string | null
  /** JSON text of the members that are not searched for. */
  readonly members: string
  readonly created_at: Instant
  readonly updated_at: Instant
}

/** A start of a conversation on its way, done or failed. */
export interface StartTaskRow {
  /** UUID, lower case with dashes. */
  readonly id: string
  readonly owner: string | null
  readonly status: string
  readonly detail: string | null
  readonly conversation: string | null
  readonly sandbox: string | null
  readonly agent_url: string | null
  /** JSON text of the request, secrets masked. */
  readonly request: string
  /** UTC day (`2026-01-31`) in which it took a slot of its owner's quota; null when it took none, or gave it back. */
  readonly quota_day: string | null
  readonly created_at: Instant
  readonly updated_at: Instant
}

export interface UserRow {
  readonly id: string
  readonly name: string | null
  readonly email: string | null
  /** The organisation that the user works in unless a request says otherwise. */
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
  readonly created_at: Instant
}

export interface ApiKeyRow {
  readonly id: string
  /** SHA-256 of the key in hex. The key itself is nowhere. */
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
}

export interface PendingMessageRow {
  readonly id: string
  /** Id of the conversation, or `task-` and the id of its start task (32 hex digits). */
  readonly target: string
  readonly owner: string | null
  /** JSON text of role and content. */
  readonly message: string
  readonly created_at: Instant
}

/**
 * One page of rows, the newest first unless the query says otherwise; rows of one moment are in order of their ids. Walks are
 * stable while rows come and go: one that is there all the time is seen exactly once, unless a change moves it.
 */
export interface RowPage<R> {
  readonly items: readonly R[]
  /** Opaque; null exactly when nothing more matches. */
  readonly next_page_id: string | null
}

export interface PageQuery {
  readonly limit: number
  /** A `next_page_id` of the same list and order; a Problem `invalid` at `["query","page_id"]` for anything else. Empty: the first. */
  readonly page_id?: string | undefined
}

/** Whose rows: those of one user, in one organisation when it is given. Null: nobody's (single user without identity). */
export interface Scope {
  readonly owner: string | null
  readonly org?: string | undefined
}

export type RowSort = 'CREATED_AT' | 'CREATED_AT_DESC' | 'UPDATED_AT' | 'UPDATED_AT_DESC'

export interface SandboxRows {
  /** Writes a new row; `known` when the id exists. */
  add(row: SandboxRow): Promise<'added' | 'known'>
  get(ids: readonly string[]): Promise<(SandboxRow | undefined)[]>
  findByKeyHash(hash: string): Promise<SandboxRow | undefined>
  /**
   * Changes the members given, if the row still has the members of `where`. Answers the row as it is then, undefined when it
   * is not there or does not match. A changed `status` moves `changed_at`.
   */
  update(
    id: string,
    members: Partial<Omit<SandboxRow, 'id' | 'created_at' | 'changed_at'>>,
    options?: { readonly where?: Partial<Pick<SandboxRow, 'wanted' | 'status' | 'owner' | 'epoch'>> },
  ): Promise<SandboxRow | undefined>
  /** Takes the oldest RUNNING one of the warm pool (owner null, wanted running) of a spec for an owner, each at most once. */
  claim(
    spec: string,
    members: Partial<Omit<SandboxRow, 'id' | 'created_at' | 'changed_at'>> & { readonly owner: string },
  ): Promise<SandboxRow | undefined>
  /** Newest first; those that are wanted gone are not shown. */
  search(scope: Scope, query: PageQuery): Promise<RowPage<SandboxRow>>
  /** Every row, in order of id, in batches, for the reconciler. */
  iterateAll(): AsyncIterable<SandboxRow>
  /** Rows of an owner that are wanted running, the one used longest ago first. */
  listRunning(owner: string | null): Promise<readonly SandboxRow[]>
  remove(id: string): Promise<boolean>
}

export interface AppConversationFilter {
  /** Ignores case (simple folding) and knows no wildcards; empty is as if it were not there. */
  readonly title__contains?: string | undefined
  readonly created_at__gte?: Instant | undefined
  readonly created_at__lt?: Instant | undefined
  readonly updated_at__gte?: Instant | undefined
  readonly updated_at__lt?: Instant | undefined
  readonly sandbox_id__eq?: string | undefined
  /** Those with a parent are left out unless this is true. */
  readonly include_sub_conversations?: boolean | undefined
}

export interface AppConversationRows {
  /** Writes a new row, or answers the one that is there (also a foreign one: look at its owner). */
  add(row: AppConversationRow): Promise<{ readonly row: AppConversationRow; readonly created: boolean }>
  get(ids: readonly string[]): Promise<(AppConversationRow | undefined)[]>
  update(
    id: string,
    members: Partial<Omit<AppConversationRow, 'id' | 'created_at'>>,
  ): Promise<AppConversationRow | undefined>
  /** TITLE orders by the first hundred characters of the title without regard to case; no title is an empty one. */
  search(
    scope: Scope,
    query: PageQuery & AppConversationFilter & { readonly sort_order: RowSort | 'TITLE' | 'TITLE_DESC' },
  ): Promise<RowPage<AppConversationRow>>
  count(scope: Scope, filter: AppConversationFilter): Promise<number>
  /** The conversations of a sandbox, the oldest first. */
  listBySandbox(sandbox: string): Promise<readonly AppConversationRow[]>
  listChildren(id: string): Promise<readonly AppConversationRow[]>
  remove(id: string): Promise<boolean>
}

/** The `org` of a scope says nothing here: tasks have none. */
export interface StartTaskRows {
  /** A plain Error when the id is taken. */
  add(row: StartTaskRow): Promise<void>
  get(ids: readonly string[]): Promise<(StartTaskRow | undefined)[]>
  update(
    id: string,
    members: Partial<Omit<StartTaskRow, 'id' | 'created_at'>>,
  ): Promise<StartTaskRow | undefined>
  search(
    scope: Scope,
    query: PageQuery & {
      readonly conversation_id__eq?: string | undefined
      readonly created_at__gte?: Instant | undefined
      readonly sort_order: RowSort
    },
  ): Promise<RowPage<StartTaskRow>>
  count(
    scope: Scope,
    filter: {
      readonly conversation_id__eq?: string | undefined
      readonly created_at__gte?: Instant | undefined
    },
  ): Promise<number>
  /** Those that are neither READY nor ERROR, whoever owns them, the oldest first. */
  listUnfinished(): Promise<readonly StartTaskRow[]>
  /** The tasks of a conversation go with it. */
  removeByConversation(conversation: string): Promise<void>
}

export interface UserRows {
  /** False when the id is there already; nothing is changed then. */
  addUser(row: UserRow): Promise<boolean>
  getUser(id: string): Promise<UserRow | undefined>
  listUsers(query: PageQuery): Promise<RowPage<UserRow>>
  updateUser(id: string, members: Partial<Omit<UserRow, 'id' | 'created_at'>>): Promise<UserRow | undefined>
  /** Its keys, memberships, documents and quota go too; sandboxes, conversations and tasks are the caller's matter. */
  removeUser(id: string): Promise<boolean>
  addOrg(row: OrgRow): Promise<boolean>
  getOrg(id: string): Promise<OrgRow | undefined>
  listOrgs(query: PageQuery): Promise<RowPage<OrgRow>>
  updateOrg(id: string, members: Partial<Omit<OrgRow, 'id' | 'created_at'>>): Promise<OrgRow | undefined>
  /** Idempotent. A Problem `not_found` when there is no such organisation or user. */
  addMember(org: string, user: string): Promise<void>
  removeMember(org: string, user: string): Promise<boolean>
  listOrgsOfUser(user: string): Promise<readonly OrgRow[]>
  /** A Problem `not_found` when there is no such user, a plain Error when the id or the hash is taken. */
  addKey(row: ApiKeyRow): Promise<void>
  findKeyByHash(hash: string): Promise<ApiKeyRow | undefined>
  /** Newest first. */
  listKeys(user: string): Promise<readonly ApiKeyRow[]>
  countKeys(): Promise<number>
  /** Only forwards; nothing happens when the key is gone. */
  markKeyUsed(id: string, used_at: Instant): Promise<void>
  /** False when the user has no such key. */
  removeKey(user: string, id: string): Promise<boolean>
}

/** Conversations that were started on a UTC day (`2026-01-31`). */
export interface QuotaRows {
  /** Takes a slot if fewer than `limit` are taken, in one step however many ask at once. `used` is what is taken then. */
  reserve(
    user: string,
    day: string,
    limit: number,
  ): Promise<{ readonly isReserved: boolean; readonly used: number }>
  /** Gives a slot back; never below zero. */
  release(user: string, day: string): Promise<void>
  getUsed(user: string, day: string): Promise<number>
}

export interface PendingMessageRows {
  /** Its place in the queue from 1, or undefined when `max` wait for the target already. One that waits already keeps its place. */
  add(row: PendingMessageRow, max: number): Promise<number | undefined>
  /** Oldest first. */
  list(target: string): Promise<readonly PendingMessageRow[]>
  remove(id: string): Promise<void>
}

/**
 * The rows of the control plane. Every change is durable when its promise resolves (WAL, synchronous FULL), and is all or nothing;
 * changes take effect in the order in which they were asked for. A change rejects with a Problem `storage_full` on a full disk, and
 * `unavailable` after a failed write and after closing. Members that are undefined in a change stay as they are.
 */
export interface ControlPlaneStore extends AsyncDisposable {
  /** 32 hex digits, made with the ledger: the label of everything that a backend makes for it. */
  readonly id: string
  readonly sandboxes: SandboxRows
  readonly conversations: AppConversationRows
  readonly startTasks: StartTaskRows
  readonly users: UserRows
  readonly quota: QuotaRows
  readonly pendingMessages: PendingMessageRows
  readonly documents: DocumentStore
}
