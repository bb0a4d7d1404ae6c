import { CallError, type Client, ConnectionError } from '@slipway/client'
import {
  type AppConversation,
  type AppConversationStartRequest,
  type ExecutionStatus,
  type Instant,
  type LogFunction,
  Problem,
} from '@slipway/protocol'
import type { KeyedMutex } from '@slipway/shared/async'
import {
  type AppConversationFilter,
  type AppConversationQuery,
  type AppConversationRow,
  type ControlPlaneStore,
  ownedBy,
  type RowPage,
  type SandboxRow,
  type Scope,
  type Storage,
} from '@slipway/storage'
import type { SandboxConnection, Sandboxes } from '../sandboxes/sandboxes.ts'
import type { ConversationStarter } from '../start/conversation-starter.ts'
import { checkRepository } from '../start/git-repository.ts'
import type { PendingMessages } from './pending-messages.ts'
import { parseUuid, toHexId } from './records/conversation-ids.ts'
import {
  type ConversationMetadata,
  defaultTitle,
  parseMetadata,
  toAppConversation,
  visibleSandboxStatus,
} from './records/conversation-info.ts'
import type { RemovedConversations } from './records/removed-conversations.ts'

/** How long agent servers are asked for the status of their conversations: a list does not wait longer. */
const statusTimeoutMs = 3_000
const deleteTimeoutMs = 10_000
/** An agent server answers at most so many at once. */
const maxIdsPerRequest = 99

/** A change of a conversation by its owner: what is absent stays, null clears. */
export interface ConversationPatch {
  readonly title?: string | null | undefined
  readonly public?: boolean | null | undefined
  readonly selected_repository?: string | null | undefined
  readonly selected_branch?: string | null | undefined
  readonly git_provider?: AppConversationStartRequest['git_provider'] | null | undefined
  readonly tags?: Readonly<Record<string, string>> | undefined
}

export interface ConversationsDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'conversations' | 'startTasks'>
  readonly storage: Pick<Storage, 'conversations'>
  readonly sandboxes: Pick<Sandboxes, 'find' | 'getConnection' | 'remove'>
  readonly starter: Pick<ConversationStarter, 'cancel' | 'hasOthers'>
  readonly pendingMessages: Pick<PendingMessages, 'remove'>
  readonly removedConversations: RemovedConversations
  readonly conversationMutex: KeyedMutex
  readonly log: LogFunction
  readonly now: () => Instant
}

/** The conversations of users: their rows, with what their sandboxes say of them now. */
export class Conversations {
  readonly #deps: ConversationsDeps

  constructor(deps: ConversationsDeps) {
    this.#deps = deps
  }

  /** The row of an own conversation; a Problem `not_found` otherwise. */
  async getOwned(scope: Scope, id: string): Promise<AppConversationRow> {
    const [row] = await this.findOwned(scope, [id])
    if (row === undefined) throw new Problem('not_found', 'unknown_app_conversation')
    return row
  }

  /** In the order asked for, undefined for the missing and those of others. */
  async findOwned(scope: Scope, ids: readonly string[]): Promise<(AppConversationRow | undefined)[]> {
    const rows = await this.#deps.controlPlane.conversations.get(ids)
    const { includes } = ownedBy(scope)
    return rows.map((row) => (includes(row) ? row : undefined))
  }

  async search(scope: Scope, query: AppConversationQuery): Promise<RowPage<AppConversation>> {
    const { items, next_page_id } = await this.#deps.controlPlane.conversations.search(scope, query)
    return { items: await this.toInfos(items), next_page_id }
  }

  async count(scope: Scope, filter: AppConversationFilter): Promise<number> {
    return await this.#deps.controlPlane.conversations.count(scope, filter)
  }

  /** As their owners see them. An agent server that does not answer in time makes a status null and nothing else. */
  async toInfos(rows: readonly AppConversationRow[]): Promise<AppConversation[]> {
    const { sandboxes, controlPlane } = this.#deps
    const ids = [...new Set(rows.map(({ sandbox }) => sandbox))]
    const found = await sandboxes.find(ids)
    const sandboxesById = new Map(
      ids.map((id, at) => {
        const row = found[at]
        return [id, { row, connection: row === undefined ? undefined : sandboxes.getConnection(row) }]
      }),
    )
    const statuses = await Promise.all(
      [...sandboxesById].map(([id, { connection }]) =>
        connection === undefined
          ? []
          : fetchExecutionStatuses(connection.client, rows.filter(isInSandbox(id))),
      ),
    )
    const byId = new Map(statuses.flat())
    return await Promise.all(
      rows.map(async (row) => {
        const children = await controlPlane.conversations.listChildren(row.id)
        const { row: sandbox, connection } = sandboxesById.get(row.sandbox) ?? {}
        return toAppConversation(row, {
          sandbox,
          connection,
          executionStatus: byId.get(row.id) ?? null,
          childIds: children.filter((child) => child.owner === row.owner).map(({ id }) => id),
        })
      }),
    )
  }

  async update(scope: Scope, id: string, patch: ConversationPatch): Promise<AppConversation> {
    const { controlPlane, conversationMutex, now } = this.#deps
    checkRepository(patch.selected_repository ?? undefined)
    const row = await conversationMutex.runExclusive(id, async () => {
      const current = await this.getOwned(scope, id)
      const { title, ...rest } = patch
      const changes = Object.entries(rest).filter(([, value]) => value !== undefined)
      const members: ConversationMetadata = {
        ...parseMetadata(current),
        ...Object.fromEntries(changes),
        ...(title === undefined ? {} : { isTitleChosen: title !== null }),
      }
      return await controlPlane.conversations.update(id, {
        ...(title === undefined ? {} : { title: title ?? defaultTitle(id) }),
        members: JSON.stringify(members),
        updated_at: now(),
      })
    })
    const [info] = row === undefined ? [] : await this.toInfos([row])
    if (info === undefined) throw new Problem('not_found', 'unknown_app_conversation')
    return info
  }

  /**
   * Removes a conversation with its history, those that work for it first. Its sandbox goes when nobody else uses it. Each step
   * can be repeated, and the row is the last to go: after a crash in between, deleting it again finishes it.
   */
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
    // Before its agent server says a last word of it.
    await removedConversations.add(row.id, row.sandbox, { isDurable: isShared })
    if (isShared) await this.#removeFromSandbox(row, sandbox)
    else if (isLiving && sandbox.owner === row.owner) await sandboxes.remove(sandbox)
    await storage.conversations.remove(row.id)
    await pendingMessages.remove(row.id)
    await controlPlane.startTasks.removeByConversation(row.id)
    await controlPlane.conversations.remove(row.id)
  }

  /** In a sandbox that does not answer it is removed when that sends something of it. */
  async #removeFromSandbox(row: AppConversationRow, sandbox: SandboxRow): Promise<void> {
    const connection = this.#deps.sandboxes.getConnection(sandbox)
    if (connection !== undefined) await removeFromAgentServer(connection, row.id, this.#deps.log)
  }

  /** Tells an agent server, behind, that a conversation is removed that it still sends things of. */
  removeInBackground(id: string, sandbox: SandboxRow): void {
    const connection = this.#deps.sandboxes.getConnection(sandbox)
    if (connection !== undefined) void removeFromAgentServer(connection, id, this.#deps.log)
  }
}

/** Never rejects. */
async function removeFromAgentServer(
  { client }: SandboxConnection,
  id: string,
  log: LogFunction,
): Promise<void> {
  try {
    const params = { conversation_id: id }
    await client.call('deleteConversation', { params, signal: AbortSignal.timeout(deleteTimeoutMs) })
  } catch (error) {
    if (error instanceof CallError && error.status === 404) return
    log('warn', 'an agent server did not remove a conversation', {
      conversation: id,
      error: error instanceof ConnectionError ? 'no answer' : String(error),
    })
  }
}

function isInSandbox(sandbox: string) {
  return (row: AppConversationRow) => row.sandbox === sandbox
}

async function fetchExecutionStatuses(
  client: Pick<Client, 'call'>,
  rows: readonly AppConversationRow[],
): Promise<(readonly [id: string, status: ExecutionStatus])[]> {
  const signal = AbortSignal.timeout(statusTimeoutMs)
  const chunks = Array.from({ length: Math.ceil(rows.length / maxIdsPerRequest) }, (_, at) =>
    rows.slice(at * maxIdsPerRequest, (at + 1) * maxIdsPerRequest),
  )
  const found = await Promise.all(
    chunks.map(async (chunk) => {
      try {
        return await client.call('getConversations', {
          query: { ids: chunk.map(({ id }) => toHexId(id)) },
          signal,
        })
      } catch {
        return []
      }
    }),
  )
  return found.flat().flatMap((info) => {
    const id = parseUuid(info?.id)
    return info === null || id === undefined ? [] : [[id, info.execution_status] as const]
  })
}
