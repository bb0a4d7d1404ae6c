import type { Instant } from '@slipway/protocol'
import { expect } from 'vitest'
import type { AppConversationRow } from '../app-conversations.ts'
import type { AuditRow } from '../audit-rows.ts'
import type { ControlPlaneStore, PendingMessageRow } from '../control-plane-store.ts'
import type { PageQuery, RowPage } from '../rows.ts'
import type { SandboxRow } from '../sandboxes.ts'
import type { StartTaskRow } from '../start-tasks.ts'
import type { ApiKeyRow, OrgRow, UserRow } from '../users.ts'

/** A new store for one test. `reopen` closes it and opens it again. */
export interface OpenedStore extends AsyncDisposable {
  readonly store: ControlPlaneStore
  reopen(): Promise<ControlPlaneStore>
}

export type OpenStore = (options?: { readonly now?: () => Instant }) => Promise<OpenedStore>

export function sandboxRow(members: Partial<SandboxRow> & { readonly id: string }): SandboxRow {
  return {
    owner: 'alice',
    org: null,
    spec: 'small',
    backend: 'process',
    wanted: 'running',
    status: 'STARTING',
    detail: null,
    key_hash: null,
    sealed: Buffer.from('sealed'),
    epoch: null,
    addresses: '{}',
    created_at: 1,
    changed_at: 1,
    used_at: 1,
    caught_up_at: null,
    deletes_at: null,
    ...members,
  }
}

export function conversationRow(
  members: Partial<AppConversationRow> & { readonly id: string },
): AppConversationRow {
  return {
    owner: 'alice',
    org: null,
    sandbox: 's1',
    parent: null,
    title: null,
    status: null,
    members: '{}',
    created_at: 1,
    updated_at: 1,
    ...members,
  }
}

export function taskRow(members: Partial<StartTaskRow> & { readonly id: string }): StartTaskRow {
  return {
    owner: 'alice',
    org: null,
    status: 'WORKING',
    detail: null,
    conversation: null,
    sandbox: null,
    agent_url: null,
    request: '{}',
    quota_day: null,
    created_at: 1,
    updated_at: 1,
    ...members,
  }
}

export function userRow(members: Partial<UserRow> & { readonly id: string }): UserRow {
  const none = { name: null, email: null, org: null, daily_conversation_limit: null }
  return { ...none, is_admin: false, created_at: 1, ...members }
}

export function orgRow(members: Partial<OrgRow> & { readonly id: string }): OrgRow {
  const all = { daily_conversation_limit: null, allowed_models: null, allowed_specs: null }
  return { name: 'Org', ...all, created_at: 1, ...members }
}

export function keyRow(members: Partial<ApiKeyRow> & { readonly id: string }): ApiKeyRow {
  const none = { org: null, name: null, not_before: null, expires_at: null, used_at: null, created_by: null }
  return { hash: `hash of ${members.id}`, user: 'alice', scopes: [], created_at: 1, ...none, ...members }
}

export function auditRow(members: Partial<AuditRow> & { readonly id: string }): AuditRow {
  return {
    created_at: 1,
    ...{ caller: null, via: null, org: null, conversation: null, sandbox: null, target: null },
    ...{ action: 'deleteUser', method: 'DELETE', route: '/users', target_type: 'user', request_id: 'r' },
    ...{ allowed_by: null, status: null, before: null, after: null },
    ...members,
  }
}

export function messageRow(id: string, target: string): PendingMessageRow {
  return { id, target, owner: 'alice', message: '{"role":"user"}', created_at: 1 }
}

export function rowIds(rows: readonly ({ readonly id: string } | undefined)[]): (string | undefined)[] {
  return rows.map((row) => row?.id)
}

/** Every page from the first. */
export async function walkPages<R>(
  search: (query: PageQuery) => Promise<RowPage<R>>,
  limit: number,
  between: () => Promise<unknown> = async () => {},
): Promise<R[]> {
  const rows: R[] = []
  for (let page_id: string | undefined; ; await between()) {
    const page = await search({ limit, page_id })
    expect(page.items.length).toBeLessThanOrEqual(limit)
    rows.push(...page.items)
    if (page.next_page_id === null) return rows
    expect(page.items).toHaveLength(limit)
    page_id = page.next_page_id
  }
}
