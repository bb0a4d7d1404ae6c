/**
 * Takes the logs of agent servers in sandboxes into the log of the control plane.
 *
 * Problem: a sandbox runs what a model wrote, so nothing of what it sends is trusted: whose conversation it
 * is, how much it is, and whether it fits what came before. The sender repeats what it got no answer for, and
 * may have lost events or begun a new log.
 *
 * Idea: the receiver of `webhooks/delivery.ts` of the agent server. A request names the position before its
 * first event. What is stored already is compared and skipped; what is missing before it is asked for by a
 * 409 with the position of this log. Without a position, as other servers send, ids are compared.
 *
 * Invariants:
 * - Whose conversation it is, is known before the body is read, and is checked again when its row exists
 *   (`#requireAccess`, `#ensureRow`). Another sandbox or another owner is refused.
 * - Bytes of events are stored as they came; what is read from them is only for the row.
 * - One request of a conversation is stored at a time (`conversationMutex`), and the append names the end
 *   that it was decided with.
 * - A removed conversation is not made again by late events: this is looked up before and within the mutex.
 * - Nothing is stored of a request whose earlier events are missing (`#store`).
 * - Other events at stored positions are a new log of the sandbox: those with new ids are added, and it is
 *   logged once (`#selectNew`). Stored events are never replaced.
 * - The answer comes when the events are durable. The row follows; a failure to change it is only logged,
 *   because the events are stored (`#updateRow`).
 * - Bodies in memory are bounded for all, for each owner and, in number, for each sandbox.
 * - Usage never decreases (`maxMetrics`): a late report does not undo a newer one.
 *
 * If you change this: a sandbox that reads, fills or spoils what is not its own, or a log with gaps.
 * `event-ingest.slow.test.ts` repeats, splits and loses batches.
 *
 * Decision pages: docs/decisions/0011-control-plane.md, docs/decisions/0021-cursors.md
 */

import { type Moment, Problem, parseInstant } from '@slipway/protocol'
import { ByteBudget, ByteBudgetError, type ByteBudgetOptions, type ByteLease } from '@slipway/shared/async'
import { LruMap } from '@slipway/shared/collections'
import { createCounter } from '@slipway/shared/metrics'
import { cursorAt, type StoredEvent, toReceivedEvent } from '@slipway/storage'
import type { AppConversationRow, SandboxRow } from '@slipway/storage/control-plane'
import { applyReport } from '../conversations/records/apply-report.ts'
import type { ConversationContext } from '../conversations/records/conversation-context.ts'
import { parseUuid } from '../conversations/records/conversation-ids.ts'
import {
  type ConversationMetadata,
  defaultTitle,
  parseMetadata,
} from '../conversations/records/conversation-info.ts'
import { maxMetrics, type UsageMetrics } from '../conversations/records/usage-metrics.ts'
import type { AgentLog } from '../network/caught-up.ts'
import { type EventBody, type IncomingEvent, readEvents } from './read-events.ts'

const maxConcurrentBodies = 8
const mebibyte = 1024 * 1024
/** Of bodies in memory, unpacked. An owner's share is the largest body and some small ones. */
const defaultBodyLimits = { totalBytes: 256 * mebibyte, bytesPerKey: 72 * mebibyte, maxWaitMs: 10_000 }
/** `updated_at` moves at most this often for events alone. */
const touchIntervalMicros = 1_000_000
/** Conversations of which it is known that something was logged. */
const maxLogged = 10_000

export type BodyLimits = Omit<ByteBudgetOptions, 'clock'>

interface EventIngestDeps extends Omit<ConversationContext, 'fetch'> {
  /** Called when a sandbox sends events of a removed conversation. */
  readonly onRemoved: (conversation: string, sandbox: SandboxRow) => void
  /** 72 MiB of an owner and 256 MiB of all unless given. */
  readonly bodyLimits?: BodyLimits | undefined
}

/** Stores the logs of agent servers. A Problem `unauthorized` for a conversation of another sandbox. */
export class EventIngest {
  readonly #deps: EventIngestDeps
  readonly #bodyBudget: ByteBudget
  readonly #activeBodies = new Map<string, number>()
  /** Conversations whose agent server has other events than this server: logged once each. */
  readonly #diverged = new LruMap<string, true>({ max: maxLogged })
  /** Conversations of which an event has a member twice: logged once each. */
  readonly #ambiguous = new LruMap<string, true>({ max: maxLogged })
  readonly duplicates = createCounter(
    'slipway_ingest_duplicate_members_total',
    'Received events in which an object has a name twice; they are stored as they came.',
  )

  constructor(deps: EventIngestDeps) {
    this.#deps = deps
    this.#bodyBudget = new ByteBudget({ ...(deps.bodyLimits ?? defaultBodyLimits), clock: deps.clock })
  }

  /**
   * Resolves when all events are durable. `after` is the sender's position before the first one; without it,
   * events are compared by id. Returns the position where the sender continues when earlier ones are missing.
   * A Problem `unavailable` when too many bytes of its owner, or of all, are being received.
   */
  async receiveEvents(
    sandbox: SandboxRow,
    conversation: string,
    body: EventBody & { readonly after: number | undefined },
  ): Promise<number | undefined> {
    const { removedConversations, conversationMutex } = this.#deps
    if (!(await removedConversations.has(conversation, sandbox.id)))
      await this.#requireAccess(sandbox, conversation)
    using lease = this.#bodyBudget.lease(sandbox.owner ?? '')
    const events = await this.#readBody(sandbox, lease, body)
    return await conversationMutex.runExclusive(conversation, async () => {
      if (await removedConversations.has(conversation, sandbox.id)) {
        this.#deps.onRemoved(conversation, sandbox)
        return undefined
      }
      const row = await this.#ensureRow(sandbox, conversation)
      const missingFrom = await this.#store(row, events, body.after)
      if (missingFrom === undefined) await this.#updateRow(row, events)
      return missingFrom
    })
  }

  /** Applies an agent server's report of a conversation (wire 2.11, 3.8). Invalid members are ignored. */
  async receiveConversation(
    sandbox: SandboxRow,
    conversation: string,
    info: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    const { removedConversations, controlPlane, conversationMutex, log, clock } = this.#deps
    await conversationMutex.runExclusive(conversation, async () => {
      if (info.execution_status === 'deleting') {
        log('debug', 'an agent server removed a conversation', { conversation, sandbox: sandbox.id })
        await this.#requireAccess(sandbox, conversation)
        return await removedConversations.forget(conversation, sandbox.id)
      }
      if (await removedConversations.has(conversation, sandbox.id)) return
      const row = await this.#ensureRow(sandbox, conversation, info)
      const parent = await this.#resolveParent(row, info.parent_conversation_id)
      const now = clock.now() * 1000
      await controlPlane.conversations.update(row.id, {
        ...applyReport(row, info, now),
        parent,
        updated_at: now,
      })
    })
  }

  /** Whether nothing is missing here of the log that an agent server reports. */
  async hasAll(sandbox: string, { conversation, count, last }: AgentLog): Promise<boolean> {
    const { removedConversations, controlPlane, storage } = this.#deps
    if (count === 0 || (await removedConversations.has(conversation, sandbox))) return true
    const [row] = await controlPlane.conversations.get([conversation])
    const [record] = await storage.conversations.get([conversation])
    if (row?.sandbox !== sandbox || record === undefined || last === undefined) return false
    if (record.head - (parseMetadata(row).offset ?? 0) < count) return false
    // Another log may be as long.
    const [found] = await storage.log.get(conversation, [last])
    return found !== undefined
  }

  /**
   * Up to where the log of an agent server is here: its position, and the cursor to continue after. Undefined
   * for conversations that were removed, and those of other sandboxes.
   */
  async findPosition(
    sandbox: string,
    conversation: string,
  ): Promise<{ readonly position: number; readonly cursor: string } | undefined> {
    const { removedConversations, controlPlane, storage } = this.#deps
    if (await removedConversations.has(conversation, sandbox)) return undefined
    const [row] = await controlPlane.conversations.get([conversation])
    if (row === undefined) return { position: 0, cursor: '0' }
    if (row.sandbox !== sandbox) return undefined
    const [record] = await storage.conversations.get([conversation])
    const offset = parseMetadata(row).offset ?? 0
    const position = Math.max(0, (record?.head ?? 0) - offset)
    // With an offset the last event here may be of another log.
    const cursor = offset > 0 ? String(position) : await cursorAt(storage.log, conversation, position)
    return { position, cursor }
  }

  #countDuplicates(conversation: string, events: readonly IncomingEvent[]): void {
    const duplicates = events.filter(({ hasDuplicate }) => hasDuplicate)
    if (duplicates.length === 0) return
    this.duplicates.inc(duplicates.length)
    if (this.#ambiguous.has(conversation)) return
    this.#ambiguous.set(conversation, true)
    const ids = duplicates.slice(0, 10).map(({ value }) => String(value.id))
    this.#deps.log('warn', 'events have a member twice, and are stored as they came', { conversation, ids })
  }

  /** Refuses the conversation of another sandbox. */
  async #requireAccess(sandbox: SandboxRow, conversation: string): Promise<void> {
    const [row] = await this.#deps.controlPlane.conversations.get([conversation])
    if (row !== undefined) requireOwner(sandbox, row)
  }

  /** The row of a conversation of the sandbox, created when missing. */
  async #ensureRow(
    sandbox: SandboxRow,
    id: string,
    info: Readonly<Record<string, unknown>> = {},
  ): Promise<AppConversationRow> {
    const { controlPlane, storageQuota } = this.#deps
    const now = this.#deps.clock.now() * 1000
    const maxOfOwner = await storageQuota.maxConversations(sandbox.owner)
    const createdAt = typeof info.created_at === 'string' ? parseInstant(info.created_at) : undefined
    const { row, created } = await controlPlane.conversations.add(
      {
        id,
        owner: sandbox.owner,
        org: sandbox.org,
        sandbox: sandbox.id,
        parent: null,
        title: defaultTitle(id),
        status: null,
        members: JSON.stringify({} satisfies ConversationMetadata),
        created_at: Math.min(createdAt ?? now, now),
        updated_at: now,
      },
      { maxOfOwner },
    )
    requireOwner(sandbox, row)
    if (created && info.id === undefined)
      this.#deps.log('debug', 'events of an unknown conversation arrived', { conversation: id })
    return row
  }

  /** Null for a parent of another owner or sandbox, or the conversation itself. */
  async #resolveParent(row: AppConversationRow, requested: unknown): Promise<string | null> {
    const id = parseUuid(requested)
    if (row.parent !== null || id === undefined) return row.parent
    const [parent] = await this.#deps.controlPlane.conversations.get([id])
    const isOwn = parent?.owner === row.owner && parent.sandbox === row.sandbox && parent.id !== row.id
    return isOwn && parent.parent !== row.id ? parent.id : null
  }

  async #store(
    row: AppConversationRow,
    events: readonly IncomingEvent[],
    after: number | undefined,
  ): Promise<number | undefined> {
    const { storage, storageQuota } = this.#deps
    const { record } = await storage.conversations.create({ id: row.id })
    const offset = parseMetadata(row).offset ?? 0
    if (after !== undefined && after + offset > record.head) return Math.max(0, record.head - offset)
    const newEvents =
      after === undefined ? events : await this.#selectNew(row.id, events, after + offset, record.head)
    if (newEvents.length === 0) return undefined
    const [last] = record.head === 0 ? [] : await storage.log.read(row.id, record.head - 1, 1)
    const status = findLastStatus(newEvents)
    let previous: Moment | undefined = last
    const received = newEvents.map(({ bytes, value }) => {
      const event = toReceivedEvent(bytes, value, {
        keep: true,
        last: previous,
        now: this.#deps.clock.now() * 1000,
      })
      previous = event
      return event
    })
    const bytes = received.reduce((sum, event) => sum + event.bytes.length, 0)
    const append = () =>
      storage.log.append(row.id, received, {
        ...(after === undefined ? {} : { after: record.head }),
        ...(status === undefined ? {} : { record: { status } }),
      })
    const stored = await storageQuota.store(row, bytes, append)
    // The others were delivered before.
    const isNew = (_: IncomingEvent, at: number) => Number(stored[at]?.position) > record.head
    this.#countDuplicates(row.id, newEvents.filter(isNew))
    return undefined
  }

  /** The events that are not stored. Different ones at stored positions belong to a new log. */
  async #selectNew(
    id: string,
    events: readonly IncomingEvent[],
    after: number,
    head: number,
  ): Promise<readonly IncomingEvent[]> {
    const { log } = this.#deps.storage
    const stored = await log.read(id, after, Math.min(events.length, head - after))
    const newEvents = events.slice(stored.length)
    const different = events.slice(0, stored.length).filter((event, at) => !isSameEvent(event, stored[at]))
    if (different.length === 0) return newEvents
    const ids = different.map(({ value }) => String(value.id))
    const found = await log.get(id, ids)
    if (!this.#diverged.has(id)) {
      this.#diverged.set(id, true)
      this.#deps.log('error', 'an agent server has other events than were stored before', {
        conversation: id,
        position: after,
        events: different.length,
      })
    }
    return [...different.filter((_, at) => found[at] === undefined), ...newEvents]
  }

  /** Updates the row from the events. They are stored, so a failure is only logged. */
  async #updateRow(row: AppConversationRow, events: readonly IncomingEvent[]): Promise<void> {
    const { controlPlane, clock, log } = this.#deps
    const status = findLastStatus(events) ?? row.status
    const metadata = parseMetadata(row)
    const metrics = events.reduce<UsageMetrics | null>(
      (most, event) => maxMetrics(most, event.metrics),
      metadata.metrics ?? null,
    )
    const members = JSON.stringify({ ...metadata, metrics } satisfies ConversationMetadata)
    const updated_at = clock.now() * 1000
    if (status === row.status && members === row.members && updated_at - row.updated_at < touchIntervalMicros)
      return
    try {
      await controlPlane.conversations.update(row.id, { status, members, updated_at })
    } catch (error) {
      log('error', 'the row of a conversation could not be changed', {
        conversation: row.id,
        error: String(error),
      })
    }
  }

  async #readBody(sandbox: SandboxRow, lease: ByteLease, body: EventBody): Promise<IncomingEvent[]> {
    try {
      return await this.#limitBodies(sandbox.id, () => readEvents(body, lease))
    } catch (error) {
      if (!(error instanceof ByteBudgetError)) throw error
      throw new Problem('unavailable', 'Too many events are being received: send them again later')
    }
  }

  /** Bytes of bodies in memory. */
  get bodyBytes(): number {
    return this.#bodyBudget.usedBytes
  }

  async #limitBodies<T>(sandbox: string, work: () => Promise<T>): Promise<T> {
    const count = this.#activeBodies.get(sandbox) ?? 0
    if (count >= maxConcurrentBodies)
      throw new Problem('too_many', 'Too many concurrent requests of this sandbox')
    this.#activeBodies.set(sandbox, count + 1)
    try {
      return await work()
    } finally {
      const now = Number(this.#activeBodies.get(sandbox)) - 1
      if (now === 0) this.#activeBodies.delete(sandbox)
      else this.#activeBodies.set(sandbox, now)
    }
  }
}

function requireOwner(sandbox: SandboxRow, row: AppConversationRow): void {
  if (row.sandbox === sandbox.id && row.owner === sandbox.owner) return
  throw new Problem('unauthorized', 'Session key does not own this conversation')
}

/** An event without id or timestamp got them here: it equals the stored one at its position. */
function isSameEvent({ bytes, value }: IncomingEvent, stored: StoredEvent | undefined): boolean {
  if (stored === undefined) return false
  return typeof value.id !== 'string' || typeof value.timestamp !== 'string' || bytes.equals(stored.bytes)
}

function findLastStatus(events: readonly IncomingEvent[]): string | undefined {
  return events.findLast(({ status }) => status !== undefined)?.status
}
