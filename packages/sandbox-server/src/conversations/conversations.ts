import { CallError, type Client, ConnectionError } from '@slipway/client'
import { type AppConversation, type ExecutionStatus, Problem } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import {
  type AppConversationFilter,
  type AppConversationQuery,
  type AppConversationRow,
  ownedBy,
  type RowPage,
  type SandboxRow,
  type Scope,
} from '@slipway/storage/control-plane'
import { checkRepository } from '../accounts/git-repository.ts'
import type { Sandboxes } from '../sandboxes/sandboxes.ts'
import type { PendingMessages } from './pending-messages.ts'
import type { ConversationContext } from './records/conversation-context.ts'
import { parseUuid, toHexId } from './records/conversation-ids.ts'
import {
  type ConversationMetadata,
  defaultTitle,
  parseMetadata,
  toAppConversation,
  visibleSandboxStatus,
} from './records/conversation-info.ts'

/** Bound of the time that a list waits for the statuses of agent servers. */
const statusTimeoutMs = 3_000
const deleteTimeoutMs = 10_000
/** Limit of agent servers. */
const maxIdsPerRequest = 99

/** A change by the owner: absent members stay, null clears. */
type ConversationPatch = { readonly title?: string | null | undefined } & Pick<
  ConversationMetadata,
  'public' | 'selected_repository' | 'selected_branch' | 'git_provider' | 'tags'
>

interface ConversationsDeps extends Omit<ConversationContext, 'fetch'> {
  readonly sandboxes: Pick<Sandboxes, 'find' | 'getConnection' | 'remove'>
  /** The starts of conversations: `ConversationStarter`. */
  readonly starter: {
    cancel(conversation: string): Promise<void>
    hasOthers(sandbox: string, conversation: string): Promise<boolean>
  }
  readonly pendingMessages: Pick<PendingMessages, 'remove'>
}

/** The conversations of users: their rows, combined with the current state of their sandboxes. */
export class Conversations {
  readonly #deps: ConversationsDeps

  constructor(deps: ConversationsDeps) {
    this.#deps = deps
  }

  /** A Problem `not_found` for a missing conversation or that of another owner. */
  async getOwned(scope: Scope, id: string): Promise<AppConversationRow> {
    const [row] = await this.findOwned(scope, [id])
    if (row === undefined) throw new Problem('not_found', 'unknown_app_conversation')
    return row
  }

  /** In the order of `ids`, undefined for missing ones and those of other owners. */
  async findOwned(scope: Scope, ids: readonly string[]): Promise<(AppConversationRow | undefined)[]> {
    const rows = await this.#deps.controlPlane.conversations.get(ids)
    const { includes } = ownedBy(scope)
    return rows.map((row) => (includes(row) ? row : undefined))
  }

  /** The rows of a page, without the state of their sandboxes. */
  async list(scope: Scope, query: AppConversationQuery): Promise<RowPage<AppConversationRow>> {
    return await this.#deps.controlPlane.conversations.search(scope, query)
  }

  async search(scope: Scope, query: AppConversationQuery): Promise<RowPage<AppConversation>> {
    const { items, next_page_id } = await this.list(scope, query)
    return { items: await this.toInfos(items), next_page_id }
  }

  async count(scope: Scope, filter: AppConversationFilter): Promise<number> {
    return await this.#deps.controlPlane.conversations.count(scope, filter)
  }

  /** As their owners see them. `execution_status` is null when an agent server does not answer in time. */
  async toInfos(rows: readonly AppConversationRow[]): Promise<AppConversation[]> {
    const { sandboxes, controlPlane, clock } = this.#deps
    const found = await sandboxes.find([...new Set(rows.map(({ sandbox }) => sandbox))])
    const contexts = new Map(
      found
        .filter((row) => row !== undefined)
        .map((row) => [row.id, { sandbox: row, connection: sandboxes.getConnection(row) }]),
    )
    const statuses = await Promise.all(
      [...Map.groupBy(rows, ({ sandbox }) => sandbox)].map(([id, inSandbox]) => {
        const client = contexts.get(id)?.connection?.client
        return client === undefined
          ? []
          : fetchExecutionStatuses(client, inSandbox, clock.timeout(statusTimeoutMs))
      }),
    )
    const statusById = new Map(statuses.flat())
    return await Promise.all(
      rows.map(async (row) => {
        const children = await controlPlane.conversations.listChildren(row.id)
        const { sandbox, connection } = contexts.get(row.sandbox) ?? {}
        return toAppConversation(row, {
          sandbox,
          connection,
          executionStatus: statusById.get(row.id) ?? null,
          childIds: children.filter((child) => child.owner === row.owner).map(({ id }) => id),
        })
      }),
    )
  }

  async update(scope: Scope, id: string, patch: ConversationPatch): Promise<AppConversation> {
    const { controlPlane, conversationMutex, clock } = this.#deps
    checkRepository(patch.selected_repository ?? undefined)
    const row = await conversationMutex.runExclusive(id, async () => {
      const current = await this.getOwned(scope, id)
      const { title, ...rest } = patch
      const members: ConversationMetadata = {
        ...parseMetadata(current),
        ...definedMembers(rest),
        ...(title === undefined ? {} : { isTitleChosen: title !== null }),
      }
      return await controlPlane.conversations.update(id, {
        ...(title === undefined ? {} : { title: title ?? defaultTitle(id) }),
        members: JSON.stringify(members),
        updated_at: clock.now() * 1000,
      })
    })
    const [info] = row === undefined ? [] : await this.toInfos([row])
    if (info === undefined) throw new Problem('not_found', 'unknown_app_conversation')
    return info
  }

  /** Children first, the sandbox unless others use it, the row last: a repeated call completes a removal. */
  async remove(scope: Scope, id: string, visited: Set<string> = new Set()): Promise<void> {
    const row = await this.getOwned(scope, id)
    visited.add(id)
    const { controlPlane, conversationMutex, starter } = this.#deps
    for (const child of await controlPlane.conversations.listChildren(id))
      if (ownedBy(scope).includes(child) && !visited.has(child.id))
        await this.remove(scope, child.id, visited)
    await starter.cancel(id)
    await conversationMutex.runExclusive(id, () => this.#removeOne(row))
  }

  async #removeOne(row: AppConversationRow): Promise<void> {
    const { controlPlane, storage, sandboxes, starter, pendingMessages, removedConversations } = this.#deps
    const [sandbox] = await sandboxes.find([row.sandbox])
    const isLiving = sandbox !== undefined && visibleSandboxStatus(sandbox) !== 'MISSING'
    const isShared = isLiving && (await starter.hasOthers(sandbox.id, row.id))
    // First, because its agent server may still send events.
    await removedConversations.add(row.id, row.sandbox, { isDurable: isShared })
    if (isShared) await this.removeFromSandbox(row.id, sandbox)
    else if (isLiving && sandbox.owner === row.owner) await sandboxes.remove(sandbox)
    await storage.conversations.remove(row.id)
    await pendingMessages.remove(row.id)
    await controlPlane.startTasks.removeByConversation(row.id)
    await controlPlane.conversations.remove(row.id)
    this.#deps.storageQuota.forget(row.owner)
  }

  /** Never rejects: an agent server that does not answer removes it when it next sends events of it. */
  async removeFromSandbox(id: string, sandbox: SandboxRow): Promise<void> {
    const { sandboxes, clock, log } = this.#deps
    const params = { conversation_id: id }
    const signal = clock.timeout(deleteTimeoutMs)
    try {
      await sandboxes.getConnection(sandbox)?.client.call('deleteConversation', { params, signal })
    } catch (error) {
      if (error instanceof CallError && error.status === 404) return
      log('warn', 'an agent server did not remove a conversation', {
        conversation: id,
        error: error instanceof ConnectionError ? 'no answer' : String(error),
      })
    }
  }
}

async function fetchExecutionStatuses(
  client: Pick<Client, 'call'>,
  rows: readonly AppConversationRow[],
  signal: AbortSignal,
): Promise<(readonly [id: string, status: ExecutionStatus])[]> {
  const ids = rows.map(({ id }) => toHexId(id))
  const requests: ReturnType<typeof client.call<'getConversations'>>[] = []
  for (let at = 0; at < ids.length; at += maxIdsPerRequest)
    requests.push(
      client.call('getConversations', { query: { ids: ids.slice(at, at + maxIdsPerRequest) }, signal }),
    )
  const results = await Promise.allSettled(requests)
  const infos = results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
  return infos.flatMap((info) => {
    const id = parseUuid(info?.id)
    return info === null || id === undefined ? [] : [[id, info.execution_status] as const]
  })
}
