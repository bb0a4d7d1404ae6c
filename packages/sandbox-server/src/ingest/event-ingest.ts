import {
  type Instant,
  invalidInput,
  type LogFunction,
  Problem,
  parseInstant,
  type ValidationIssue,
} from '@slipway/protocol'
import type { KeyedMutex } from '@slipway/shared/async'
import {
  type AppConversationRow,
  type AppConversationRows,
  eventIssues,
  parseEventLine,
  type ReceivedEvent,
  readExecutionStatus,
  type SandboxRow,
  type Storage,
  type StoredEvent,
  toReceivedEvent,
} from '@slipway/storage'
import { parseUuid } from '../conversations/records/conversation-ids.ts'
import {
  type ConversationMetadata,
  defaultTitle,
  parseMetadata,
} from '../conversations/records/conversation-info.ts'
import type { RemovedConversations } from '../conversations/records/removed-conversations.ts'
import { maxMetrics, parseStatsMetrics, type UsageMetrics } from '../conversations/records/usage-metrics.ts'
import { applyConversationInfo } from './conversation-update.ts'
import { JsonArraySplitter } from './json-array-splitter.ts'

const mebibyte = 1024 * 1024
const maxBodyBytes = 8 * mebibyte
/** An event that is larger than a body may be comes alone. */
const maxEventBytes = 64 * mebibyte
const maxEvents = 10_000
/** Bodies of one sandbox that are read at the same time. */
const maxConcurrentBodies = 8
/** `updated_at` moves at most this often for events alone. */
const touchIntervalMicros = 1_000_000

export interface EventIngestDeps {
  readonly storage: Pick<Storage, 'log' | 'conversations'>
  readonly conversations: AppConversationRows
  readonly removedConversations: RemovedConversations
  /** Everything that changes what is kept of a conversation here holds its lane. */
  readonly conversationMutex: KeyedMutex
  /** Called when a sandbox still sends something of a conversation that was removed. */
  readonly onRemoved: (conversation: string, sandbox: SandboxRow) => void
  readonly log: LogFunction
  /** Now, in microseconds. */
  readonly now: () => Instant
}

/** How a batch of events was taken: `behind` when events before it are missing here; `head` is where the sender goes on. */
export type IngestResult = { readonly kind: 'stored' } | { readonly kind: 'behind'; readonly head: number }

/** An event that has come, as far as it matters here. */
interface IncomingEvent {
  readonly bytes: Buffer
  /** The members that the log wants to know. */
  readonly value: Record<string, unknown>
  readonly status: string | undefined
  readonly metrics: UsageMetrics | undefined
}

/**
 * Where events come home: a sandbox sends what its agent server has in its logs, and the same bytes are kept here in the
 * same order, for as long as the conversation is there. A sandbox is not trusted: it reaches conversations of its own
 * alone (a Problem `unauthorized` otherwise), and everything that it sends is checked and bounded.
 */
export class EventIngest {
  readonly #deps: EventIngestDeps
  /** How many bodies of a sandbox are being read. */
  readonly #activeBodies = new Map<string, number>()
  /** Conversations whose agent server has other events than this server, so that it is said once. */
  readonly #diverged = new Set<string>()

  constructor(deps: EventIngestDeps) {
    this.#deps = deps
  }

  /**
   * Reads a JSON array of events and resolves when all of them are durable, or were. `after` is the position before the
   * first one in the sender's log: what is here already is passed over. Without it events are known by their ids.
   */
  async receiveEvents(
    sandbox: SandboxRow,
    conversation: string,
    options: { readonly stream: AsyncIterable<Buffer>; readonly after: number | undefined },
  ): Promise<IngestResult> {
    const { removedConversations, conversationMutex } = this.#deps
    // Before anything of the body is read.
    if (!(await removedConversations.has(conversation, sandbox.id)))
      await this.#requireAccess(sandbox, conversation)
    const events = await this.#limitBodies(sandbox.id, () => readEvents(options.stream))
    return await conversationMutex.runExclusive(conversation, async () => {
      if (await removedConversations.has(conversation, sandbox.id)) {
        this.#deps.onRemoved(conversation, sandbox)
        return { kind: 'stored' }
      }
      const row = await this.#ensureRow(sandbox, conversation)
      const result = await this.#store(row, events, options.after)
      if (result.kind === 'stored') await this.#updateRow(row, events)
      return result
    })
  }

  /** Takes what an agent server says of a conversation (wire 2.11, 3.8). What cannot be used of it is passed over. */
  async receiveConversation(
    sandbox: SandboxRow,
    conversation: string,
    info: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    const { removedConversations, conversations, conversationMutex, log, now } = this.#deps
    await conversationMutex.runExclusive(conversation, async () => {
      if (info.execution_status === 'deleting') {
        log('debug', 'an agent server removed a conversation', { conversation, sandbox: sandbox.id })
        await this.#requireAccess(sandbox, conversation)
        return await removedConversations.forget(conversation, sandbox.id)
      }
      if (await removedConversations.has(conversation, sandbox.id)) return
      const row = await this.#ensureRow(sandbox, conversation, info)
      const parent = await this.#resolveParent(row, info.parent_conversation_id)
      await conversations.update(row.id, { ...applyConversationInfo(row, info), parent, updated_at: now() })
    })
  }

  /** Refuses the sandbox when the conversation is of another one. */
  async #requireAccess(sandbox: SandboxRow, conversation: string): Promise<void> {
    const [row] = await this.#deps.conversations.get([conversation])
    if (row !== undefined) requireOwner(sandbox, row)
  }

  /** The row of a conversation of the sandbox; it is made when there is none. */
  async #ensureRow(
    sandbox: SandboxRow,
    id: string,
    info: Readonly<Record<string, unknown>> = {},
  ): Promise<AppConversationRow> {
    const now = this.#deps.now()
    const createdAt = typeof info.created_at === 'string' ? parseInstant(info.created_at) : undefined
    const { row, created } = await this.#deps.conversations.add({
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
    })
    requireOwner(sandbox, row)
    if (created && info.id === undefined)
      this.#deps.log('debug', 'events of an unknown conversation came', { conversation: id })
    return row
  }

  /** A parent that is somebody else's, or the conversation itself, is none. */
  async #resolveParent(row: AppConversationRow, requested: unknown): Promise<string | null> {
    const id = parseUuid(requested)
    if (row.parent !== null || id === undefined) return row.parent
    const [parent] = await this.#deps.conversations.get([id])
    const isOwn = parent?.owner === row.owner && parent.sandbox === row.sandbox && parent.id !== row.id
    return isOwn && parent.parent !== row.id ? parent.id : null
  }

  async #store(
    row: AppConversationRow,
    events: readonly IncomingEvent[],
    after: number | undefined,
  ): Promise<IngestResult> {
    const { storage } = this.#deps
    const { record } = await storage.conversations.create({ id: row.id })
    const offset = parseMetadata(row).offset ?? 0
    if (after !== undefined && after + offset > record.head)
      return { kind: 'behind', head: Math.max(0, record.head - offset) }
    const newEvents =
      after === undefined ? events : await this.#selectNew(row.id, events, after + offset, record.head)
    if (newEvents.length === 0) return { kind: 'stored' }
    const [last] = record.head === 0 ? [] : await storage.log.read(row.id, record.head - 1, 1)
    const status = lastDefined(newEvents, (event) => event.status)
    await storage.log.append(row.id, this.#toReceivedEvents(newEvents, last), {
      ...(after === undefined ? {} : { after: record.head }),
      ...(status === undefined ? {} : { record: { status } }),
    })
    return { kind: 'stored' }
  }

  #toReceivedEvents(events: readonly IncomingEvent[], last: StoredEvent | undefined): ReceivedEvent[] {
    let lastInstant = last?.instant
    return events.map(({ bytes, value }) => {
      const event = toReceivedEvent(bytes, value, { keep: true, lastInstant, now: this.#deps.now() })
      lastInstant = event.instant
      return event
    })
  }

  /**
   * The events that are not here yet, of a batch that follows on a position. Others at positions that are here have come
   * before; when they are not the same, the agent server has begun a new log, and what is unknown of it is kept too.
   */
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
      this.#diverged.add(id)
      this.#deps.log('error', 'an agent server has other events than came home before', {
        conversation: id,
        position: after,
        events: different.length,
      })
    }
    return [...different.filter((_, at) => found[at] === undefined), ...newEvents]
  }

  /** What follows from the events for the row. They are stored already, so that nothing of it may fail the request. */
  async #updateRow(row: AppConversationRow, events: readonly IncomingEvent[]): Promise<void> {
    const { conversations, now, log } = this.#deps
    const status = lastDefined(events, (event) => event.status) ?? row.status
    const metadata = parseMetadata(row)
    const metrics = events.reduce<UsageMetrics | null>(
      (most, event) => maxMetrics(most, event.metrics),
      metadata.metrics ?? null,
    )
    const members = JSON.stringify({ ...metadata, metrics } satisfies ConversationMetadata)
    const updated_at = now()
    if (status === row.status && members === row.members && updated_at - row.updated_at < touchIntervalMicros)
      return
    try {
      await conversations.update(row.id, { status, members, updated_at })
    } catch (error) {
      log('error', 'the row of a conversation could not be changed', {
        conversation: row.id,
        error: String(error),
      })
    }
  }

  async #limitBodies<T>(sandbox: string, work: () => Promise<T>): Promise<T> {
    const count = this.#activeBodies.get(sandbox) ?? 0
    if (count >= maxConcurrentBodies) throw new Problem('too_many', 'This sandbox sends too much at once')
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
  throw new Problem('unauthorized', 'This key is not that of the sandbox of this conversation')
}

/** Reads and checks the events of a body. */
async function readEvents(stream: AsyncIterable<Buffer>): Promise<IncomingEvent[]> {
  const elements = new JsonArraySplitter()
  const events: IncomingEvent[] = []
  let sizeBytes = 0
  for await (const chunk of stream) {
    sizeBytes += chunk.length
    for (const bytes of elements.push(chunk)) {
      if (events.length >= maxEvents) throw new Problem('too_large', `More than ${maxEvents} events`)
      events.push(parseEvent(bytes, events.length))
    }
    const isAlone = events.length === 0 || (events.length === 1 && elements.pendingBytes === 0)
    const limit = isAlone ? maxEventBytes : maxBodyBytes
    if (sizeBytes > limit) throw new Problem('too_large', `The body is longer than ${limit} bytes`)
  }
  elements.end()
  return events
}

function parseEvent(bytes: Buffer, index: number): IncomingEvent {
  const line = parseEventLine(bytes)
  if (line.kind === 'issues') throw eventProblem(index, line.issues)
  const { value } = line
  const issues = eventIssues(value, true)
  if (issues.length > 0) throw eventProblem(index, issues)
  const { id, timestamp, kind, source } = value
  const isStats = kind === 'ConversationStateUpdateEvent' && value.key === 'stats'
  return {
    bytes,
    value: { id, timestamp, kind, source },
    status: readExecutionStatus(value),
    metrics: isStats ? parseStatsMetrics(value.value) : undefined,
  }
}

function eventProblem(index: number, issues: readonly ValidationIssue[]): Problem {
  const [first] = issues
  return first === undefined
    ? invalidInput(['body', index], 'The event is refused')
    : new Problem(
        'invalid',
        `event ${index} is refused`,
        issues.map((fault) => ({ ...fault, loc: ['body', index, ...fault.loc] })),
      )
}

/** One that came without id or timestamp got them here: it is the one that stands at its position. */
function isSameEvent({ bytes, value }: IncomingEvent, stored: StoredEvent | undefined): boolean {
  if (stored === undefined) return false
  return typeof value.id !== 'string' || typeof value.timestamp !== 'string' || bytes.equals(stored.bytes)
}

function lastDefined<T>(
  events: readonly IncomingEvent[],
  read: (event: IncomingEvent) => T | undefined,
): T | undefined {
  return events.reduce<T | undefined>((last, event) => read(event) ?? last, undefined)
}
