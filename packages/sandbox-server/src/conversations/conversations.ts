import { CallError, type Client, NoAnswerError } from '@slipway/client'
import {
  type AppConversation,
  type AppConversationStartRequest,
  type ExecutionStatus,
  type Instant,
  type Log,
  Problem,
} from '@slipway/protocol'
import type {
  AppConversationRow,
  Ledger,
  PageQuery,
  RowPage,
  SandboxRow,
  Scope,
  Storage,
} from '@slipway/storage'
import type { Lanes } from '../async/keyed-mutex.ts'
import type { Reached, Sandboxes } from '../sandboxes/sandboxes.ts'
import type { Starts } from '../start/conversation-starter.ts'
import { checkRepository } from '../start/git-repository.ts'
import type { Pending } from './pending-messages.ts'
import { hexOf, uuidOf } from './records/conversation-ids.ts'
import {
  conversationInfo,
  defaultTitle,
  type Members,
  membersOf,
  statusOf,
} from './records/conversation-info.ts'
import type { Removals } from './records/removed-conversations.ts'

/** How long agent servers are asked for the status of their conversations: a list does not wait longer. */
const statusMs = 3_000
const deleteMs = 10_000
/** An agent server answers at most so many at once. */
const maxIds = 99

type Search = PageQuery & Parameters<Ledger['conversations']['search']>[1]

/** A change of a conversation by its owner: what is absent stays, null clears. */
export interface Patch {
  readonly title?: string | null | undefined
  readonly public?: boolean | null | undefined
  readonly selected_repository?: string | null | undefined
  readonly selected_branch?: string | null | undefined
  readonly git_provider?: AppConversationStartRequest['git_provider'] | null | undefined
  readonly tags?: Readonly<Record<string, string>> | undefined
}

export interface ConversationParts {
  readonly ledger: Pick<Ledger, 'conversations' | 'startTasks'>
  readonly storage: Pick<Storage, 'conversations'>
  readonly sandboxes: Pick<Sandboxes, 'find' | 'reached' | 'remove'>
  readonly starts: Pick<Starts, 'cancel' | 'startingIn'>
  readonly pending: Pick<Pending, 'remove'>
  readonly removals: Removals
  readonly lanes: Lanes
  readonly log: Log
  readonly now: () => Instant
}

/** The conversations of users: their rows, with what their sandboxes say of them now. */
export class Conversations {
  readonly #parts: ConversationParts

  constructor(parts: ConversationParts) {
    this.#parts = parts
  }

  /** The row of an own conversation; a Problem `not_found` otherwise. */
  async own(scope: Scope, id: string): Promise<AppConversationRow> {
    const [row] = await this.ownOf(scope, [id])
    if (row === undefined) throw new Problem('not_found', 'unknown_app_conversation')
    return row
  }

  /** In the order asked for, undefined for the missing and those of others. */
  async ownOf(scope: Scope, ids: readonly string[]): Promise<(AppConversationRow | undefined)[]> {
    const rows = await this.#parts.ledger.conversations.get(ids)
    return rows.map((row) => (row !== undefined && isOwn(scope, row) ? row : undefined))
  }

  async search(scope: Scope, query: Search): Promise<RowPage<AppConversation>> {
    const { items, next_page_id } = await this.#parts.ledger.conversations.search(scope, query)
    return { items: await this.infos(items), next_page_id }
  }

  /** As their owners see them. An agent server that does not answer in time makes a status null and nothing else. */
  async infos(rows: readonly AppConversationRow[]): Promise<AppConversation[]> {
    const { sandboxes, ledger } = this.#parts
    const ids = [...new Set(rows.map(({ sandbox }) => sandbox))]
    const found = await sandboxes.find(ids)
    const seen = new Map(
      ids.map((id, at) => {
        const row = found[at]
        return [id, { row, reached: row === undefined ? undefined : sandboxes.reached(row) }]
      }),
    )
    const statuses = await Promise.all(
      [...seen].map(([id, { reached }]) =>
        reached === undefined ? [] : executionStatuses(reached.client, rows.filter(isIn(id))),
      ),
    )
    const byId = new Map(statuses.flat())
    return await Promise.all(
      rows.map(async (row) => {
        const children = await ledger.conversations.children(row.id)
        const { row: sandbox, reached } = seen.get(row.sandbox) ?? {}
        return conversationInfo(row, {
          sandbox,
          reached,
          executionStatus: byId.get(row.id) ?? null,
          childIds: children.filter((child) => child.owner === row.owner).map(({ id }) => id),
        })
      }),
    )
  }

  async patch(scope: Scope, id: string, patch: Patch): Promise<AppConversation> {
    const { ledger, lanes, now } = this.#parts
    checkRepository(patch.selected_repository ?? undefined)
    const row = await lanes.run(id, async () => {
      const before = await this.own(scope, id)
      const { title, ...rest } = patch
      const given = Object.entries(rest).filter(([, value]) => value !== undefined)
      const members: Members = {
        ...membersOf(before),
        ...Object.fromEntries(given),
        ...(title === undefined ? {} : { isTitleChosen: title !== null }),
      }
      return await ledger.conversations.change(id, {
        ...(title === undefined ? {} : { title: title ?? defaultTitle(id) }),
        members: JSON.stringify(members),
        updated_at: now(),
      })
    })
    const [info] = row === undefined ? [] : await this.infos([row])
    if (info === undefined) throw new Problem('not_found', 'unknown_app_conversation')
    return info
  }

  /**
   * Removes a conversation with its history, those that work for it first. Its sandbox goes when nobody else uses it. Each step
   * can be repeated, and the row is the last to go: after a crash in between, deleting it again finishes it.
   */
  async remove(scope: Scope, id: string, seen: Set<string> = new Set()): Promise<void> {
    const row = await this.own(scope, id)
    seen.add(id)
    const { ledger, lanes, starts } = this.#parts
    for (const child of await ledger.conversations.children(id))
      if (isOwn(scope, child) && !seen.has(child.id)) await this.remove(scope, child.id, seen)
    await starts.cancel(id)
    await lanes.run(id, () => this.#removeOne(row))
  }

  async #removeOne(row: AppConversationRow): Promise<void> {
    const { ledger, storage, sandboxes, pending, removals } = this.#parts
    const [sandbox] = await sandboxes.find([row.sandbox])
    const isLiving = sandbox !== undefined && statusOf(sandbox) !== 'MISSING'
    const isShared = isLiving && (await this.#isUsedByOthers(row))
    // Before its agent server says a last word of it.
    await removals.add(row.id, row.sandbox, { isKept: isShared })
    if (isShared) await this.#removeInside(row, sandbox)
    else if (isLiving && sandbox.owner === row.owner) await sandboxes.remove(sandbox)
    await storage.conversations.remove(row.id)
    await pending.remove(row.id)
    await ledger.startTasks.removeOf(row.id)
    await ledger.conversations.remove(row.id)
  }

  async #isUsedByOthers({ id, sandbox }: AppConversationRow): Promise<boolean> {
    const rows = await this.#parts.ledger.conversations.inSandbox(sandbox)
    const starting = this.#parts.starts.startingIn(sandbox)
    return rows.some((row) => row.id !== id) || starting.some((other) => other !== id)
  }

  /** In a sandbox that does not answer it is removed when that sends something of it. */
  async #removeInside(row: AppConversationRow, sandbox: SandboxRow): Promise<void> {
    const reached = this.#parts.sandboxes.reached(sandbox)
    if (reached !== undefined) await removeFrom(reached, row.id, this.#parts.log)
  }

  /** Tells an agent server, behind, that a conversation is removed that it still sends things of. */
  removeLate(id: string, sandbox: SandboxRow): void {
    const reached = this.#parts.sandboxes.reached(sandbox)
    if (reached !== undefined) void removeFrom(reached, id, this.#parts.log)
  }
}

/** Never rejects. */
async function removeFrom({ client }: Reached, id: string, log: Log): Promise<void> {
  try {
    const params = { conversation_id: id }
    await client.call('deleteConversation', { params, signal: AbortSignal.timeout(deleteMs) })
  } catch (error) {
    if (error instanceof CallError && error.status === 404) return
    log('warn', 'an agent server did not remove a conversation', {
      conversation: id,
      error: error instanceof NoAnswerError ? 'no answer' : String(error),
    })
  }
}

function isOwn({ owner, org }: Scope, row: AppConversationRow): boolean {
  return row.owner === owner && (org === undefined || row.org === org)
}

function isIn(sandbox: string) {
  return (row: AppConversationRow) => row.sandbox === sandbox
}

async function executionStatuses(
  client: Pick<Client, 'call'>,
  rows: readonly AppConversationRow[],
): Promise<(readonly [id: string, status: ExecutionStatus])[]> {
  const signal = AbortSignal.timeout(statusMs)
  const chunks = Array.from({ length: Math.ceil(rows.length / maxIds) }, (_, at) =>
    rows.slice(at * maxIds, (at + 1) * maxIds),
  )
  const found = await Promise.all(
    chunks.map(async (chunk) => {
      try {
        return await client.call('getConversations', {
          query: { ids: chunk.map(({ id }) => hexOf(id)) },
          signal,
        })
      } catch {
        return []
      }
    }),
  )
  return found.flat().flatMap((info) => {
    const id = uuidOf(info?.id)
    return info === null || id === undefined ? [] : [[id, info.execution_status] as const]
  })
}
