import { type Fault, type Instant, invalid, type Log, Problem, parseInstant } from '@slipway/protocol'
import {
  type AppConversationRow,
  type AppConversationRows,
  eventFaults,
  parseLine,
  type ReceivedEvent,
  received,
  type SandboxRow,
  type Storage,
  type StoredEvent,
  statedStatus,
} from '@slipway/storage'
import type { Lanes } from '../async/keyed-mutex.ts'
import { uuidOf } from '../conversations/records/conversation-ids.ts'
import { defaultTitle, type Members, membersOf } from '../conversations/records/conversation-info.ts'
import type { Removals } from '../conversations/records/removed-conversations.ts'
import { atLeastAsMuch, type Metrics, metricsOfStats } from '../conversations/records/usage-metrics.ts'
import { told } from './conversation-update.ts'
import { Elements } from './json-array-splitter.ts'

const mebibyte = 1024 * 1024
const maxBodyBytes = 8 * mebibyte
/** An event that is larger than a body may be comes alone. */
const maxEventBytes = 64 * mebibyte
const maxEvents = 10_000
/** Bodies of one sandbox that are read at the same time. */
const maxReceiving = 8
/** `updated_at` moves at most this often for events alone. */
const touchEvery = 1_000_000

export interface HomeParts {
  readonly storage: Pick<Storage, 'log' | 'conversations'>
  readonly conversations: AppConversationRows
  readonly removals: Removals
  /** Everything that changes what is kept of a conversation here holds its lane. */
  readonly lanes: Lanes
  /** Called when a sandbox still sends something of a conversation that was removed. */
  readonly onRemoved: (conversation: string, sandbox: SandboxRow) => void
  readonly log: Log
  /** Now, in microseconds. */
  readonly now: () => Instant
}

/** How a batch of events was taken: `behind` when events before it are missing here; `head` is where the sender goes on. */
export type Taken = { readonly kind: 'stored' } | { readonly kind: 'behind'; readonly head: number }

/** An event that has come, as far as it matters here. */
interface Arrived {
  readonly bytes: Buffer
  /** The members that the log wants to know. */
  readonly value: Record<string, unknown>
  readonly status: string | undefined
  readonly metrics: Metrics | undefined
}

/**
 * Where events come home: a sandbox sends what its agent server has in its logs, and the same bytes are kept here in the
 * same order, for as long as the conversation is there. A sandbox is not trusted: it reaches conversations of its own
 * alone (a Problem `unauthorized` otherwise), and everything that it sends is checked and bounded.
 */
export class Home {
  readonly #parts: HomeParts
  /** How many bodies of a sandbox are being read. */
  readonly #receiving = new Map<string, number>()
  /** Conversations whose agent server has other events than this server, so that it is said once. */
  readonly #different = new Set<string>()

  constructor(parts: HomeParts) {
    this.#parts = parts
  }

  /**
   * Reads a JSON array of events and resolves when all of them are durable, or were. `after` is the position before the
   * first one in the sender's log: what is here already is passed over. Without it events are known by their ids.
   */
  async receiveEvents(
    sandbox: SandboxRow,
    conversation: string,
    options: { readonly stream: AsyncIterable<Buffer>; readonly after: number | undefined },
  ): Promise<Taken> {
    const { removals, lanes } = this.#parts
    // Before anything of the body is read.
    if (!(await removals.has(conversation, sandbox.id))) await this.#mayTouch(sandbox, conversation)
    const arrived = await this.#turn(sandbox.id, () => readEvents(options.stream))
    return await lanes.run(conversation, async () => {
      if (await removals.has(conversation, sandbox.id)) {
        this.#parts.onRemoved(conversation, sandbox)
        return { kind: 'stored' }
      }
      const row = await this.#row(sandbox, conversation)
      const taken = await this.#store(row, arrived, options.after)
      if (taken.kind === 'stored') await this.#note(row, arrived)
      return taken
    })
  }

  /** Takes what an agent server says of a conversation (wire 2.11, 3.8). What cannot be used of it is passed over. */
  async receiveConversation(
    sandbox: SandboxRow,
    conversation: string,
    info: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    const { removals, conversations, lanes, log, now } = this.#parts
    await lanes.run(conversation, async () => {
      if (info.execution_status === 'deleting') {
        log('debug', 'an agent server removed a conversation', { conversation, sandbox: sandbox.id })
        await this.#mayTouch(sandbox, conversation)
        return await removals.forget(conversation, sandbox.id)
      }
      if (await removals.has(conversation, sandbox.id)) return
      const row = await this.#row(sandbox, conversation, info)
      const parent = await this.#parent(row, info.parent_conversation_id)
      await conversations.change(row.id, { ...told(row, info), parent, updated_at: now() })
    })
  }

  /** Refuses the sandbox when the conversation is of another one. */
  async #mayTouch(sandbox: SandboxRow, conversation: string): Promise<void> {
    const [row] = await this.#parts.conversations.get([conversation])
    if (row !== undefined) mustOwn(sandbox, row)
  }

  /** The row of a conversation of the sandbox; it is made when there is none. */
  async #row(
    sandbox: SandboxRow,
    id: string,
    info: Readonly<Record<string, unknown>> = {},
  ): Promise<AppConversationRow> {
    const now = this.#parts.now()
    const begun = typeof info.created_at === 'string' ? parseInstant(info.created_at) : undefined
    const { row, created } = await this.#parts.conversations.add({
      id,
      owner: sandbox.owner,
      org: sandbox.org,
      sandbox: sandbox.id,
      parent: null,
      title: defaultTitle(id),
      status: null,
      members: JSON.stringify({} satisfies Members),
      created_at: Math.min(begun ?? now, now),
      updated_at: now,
    })
    mustOwn(sandbox, row)
    if (created && info.id === undefined)
      this.#parts.log('debug', 'events of an unknown conversation came', { conversation: id })
    return row
  }

  /** A parent that is somebody else's, or the conversation itself, is none. */
  async #parent(row: AppConversationRow, asked: unknown): Promise<string | null> {
    const id = uuidOf(asked)
    if (row.parent !== null || id === undefined) return row.parent
    const [parent] = await this.#parts.conversations.get([id])
    const isOwn = parent?.owner === row.owner && parent.sandbox === row.sandbox && parent.id !== row.id
    return isOwn && parent.parent !== row.id ? parent.id : null
  }

  async #store(
    row: AppConversationRow,
    arrived: readonly Arrived[],
    after: number | undefined,
  ): Promise<Taken> {
    const { storage } = this.#parts
    const { record } = await storage.conversations.create({ id: row.id })
    const offset = membersOf(row).offset ?? 0
    if (after !== undefined && after + offset > record.head)
      return { kind: 'behind', head: Math.max(0, record.head - offset) }
    const fresh =
      after === undefined ? arrived : await this.#unknown(row.id, arrived, after + offset, record.head)
    if (fresh.length === 0) return { kind: 'stored' }
    const [last] = record.head === 0 ? [] : await storage.log.read(row.id, record.head - 1, 1)
    const status = lastOf(fresh, (event) => event.status)
    await storage.log.append(row.id, this.#events(fresh, last), {
      ...(after === undefined ? {} : { after: record.head }),
      ...(status === undefined ? {} : { record: { status } }),
    })
    return { kind: 'stored' }
  }

  #events(arrived: readonly Arrived[], last: StoredEvent | undefined): ReceivedEvent[] {
    let lastInstant = last?.instant
    return arrived.map(({ bytes, value }) => {
      const event = received(bytes, value, { keep: true, lastInstant, now: this.#parts.now() })
      lastInstant = event.instant
      return event
    })
  }

  /**
   * The events that are not here yet, of a batch that follows on a position. Others at positions that are here have come
   * before; when they are not the same, the agent server has begun a new log, and what is unknown of it is kept too.
   */
  async #unknown(
    id: string,
    arrived: readonly Arrived[],
    after: number,
    head: number,
  ): Promise<readonly Arrived[]> {
    const { log } = this.#parts.storage
    const known = await log.read(id, after, Math.min(arrived.length, head - after))
    const fresh = arrived.slice(known.length)
    const others = arrived.slice(0, known.length).filter((event, at) => !isSame(event, known[at]))
    if (others.length === 0) return fresh
    const ids = others.map(({ value }) => String(value.id))
    const found = await log.get(id, ids)
    if (!this.#different.has(id)) {
      this.#different.add(id)
      this.#parts.log('error', 'an agent server has other events than came home before', {
        conversation: id,
        position: after,
        events: others.length,
      })
    }
    return [...others.filter((_, at) => found[at] === undefined), ...fresh]
  }

  /** What follows from the events for the row. They are stored already, so that nothing of it may fail the request. */
  async #note(row: AppConversationRow, arrived: readonly Arrived[]): Promise<void> {
    const { conversations, now, log } = this.#parts
    const status = lastOf(arrived, (event) => event.status) ?? row.status
    const before = membersOf(row)
    const metrics = arrived.reduce<Metrics | null>(
      (most, event) => atLeastAsMuch(most, event.metrics),
      before.metrics ?? null,
    )
    const members = JSON.stringify({ ...before, metrics } satisfies Members)
    const updated_at = now()
    if (status === row.status && members === row.members && updated_at - row.updated_at < touchEvery) return
    try {
      await conversations.change(row.id, { status, members, updated_at })
    } catch (error) {
      log('error', 'the row of a conversation could not be changed', {
        conversation: row.id,
        error: String(error),
      })
    }
  }

  async #turn<T>(sandbox: string, work: () => Promise<T>): Promise<T> {
    const count = this.#receiving.get(sandbox) ?? 0
    if (count >= maxReceiving) throw new Problem('too_many', 'This sandbox sends too much at once')
    this.#receiving.set(sandbox, count + 1)
    try {
      return await work()
    } finally {
      const now = Number(this.#receiving.get(sandbox)) - 1
      if (now === 0) this.#receiving.delete(sandbox)
      else this.#receiving.set(sandbox, now)
    }
  }
}

function mustOwn(sandbox: SandboxRow, row: AppConversationRow): void {
  if (row.sandbox === sandbox.id && row.owner === sandbox.owner) return
  throw new Problem('unauthorized', 'This key is not that of the sandbox of this conversation')
}

/** Reads and checks the events of a body. */
async function readEvents(stream: AsyncIterable<Buffer>): Promise<Arrived[]> {
  const elements = new Elements()
  const arrived: Arrived[] = []
  let sizeBytes = 0
  for await (const chunk of stream) {
    sizeBytes += chunk.length
    for (const bytes of elements.take(chunk)) {
      if (arrived.length >= maxEvents) throw new Problem('too_large', `More than ${maxEvents} events`)
      arrived.push(checked(bytes, arrived.length))
    }
    const isAlone = arrived.length === 0 || (arrived.length === 1 && elements.pendingBytes === 0)
    const limit = isAlone ? maxEventBytes : maxBodyBytes
    if (sizeBytes > limit) throw new Problem('too_large', `The body is longer than ${limit} bytes`)
  }
  elements.end()
  return arrived
}

function checked(bytes: Buffer, index: number): Arrived {
  const parsed = parseLine(bytes)
  if (parsed.kind === 'faults') throw badEvent(index, parsed.faults)
  const { value } = parsed
  const faults = eventFaults(value, true)
  if (faults.length > 0) throw badEvent(index, faults)
  const { id, timestamp, kind, source } = value
  const isStats = kind === 'ConversationStateUpdateEvent' && value.key === 'stats'
  return {
    bytes,
    value: { id, timestamp, kind, source },
    status: statedStatus(value),
    metrics: isStats ? metricsOfStats(value.value) : undefined,
  }
}

function badEvent(index: number, faults: readonly Fault[]): Problem {
  const [first] = faults
  return first === undefined
    ? invalid(['body', index], 'The event is refused')
    : new Problem(
        'invalid',
        `event ${index} is refused`,
        faults.map((fault) => ({ ...fault, loc: ['body', index, ...fault.loc] })),
      )
}

/** One that came without id or timestamp got them here: it is the one that stands at its position. */
function isSame({ bytes, value }: Arrived, stored: StoredEvent | undefined): boolean {
  if (stored === undefined) return false
  return typeof value.id !== 'string' || typeof value.timestamp !== 'string' || bytes.equals(stored.bytes)
}

function lastOf<T>(arrived: readonly Arrived[], read: (event: Arrived) => T | undefined): T | undefined {
  return arrived.reduce<T | undefined>((last, event) => read(event) ?? last, undefined)
}
