/**
 * What a group of changes decides and writes.
 *
 * Problem: SQLite decides and writes a change in one turn of the event loop. Here the answer comes later, and
 * a statement for each event would cost a way over the network each.
 *
 * Idea: the group is planned in memory, with what was read for it before. Its events and heads are then
 * written by one statement (`writeSql`), which compares each head with the value that the plan began with.
 *
 * Invariants:
 * - A plan changes the group alone. Memory of the server changes after the commit, by `changedHeads`.
 * - A change sees the changes before it in the group: their heads (`find`) and their events (`planAppend`).
 * - An update holds the head and the epoch that the table must have, those from before the group
 *   (`expected`). If fewer rows match than there are updates, nothing is stored (StaleGroupError). This is
 *   the fence that keeps out a server without the lease.
 * - A change that moves no head locks its row with the epoch first (`fence`).
 * - The columns of `EventColumns` grow together, and `values` has the order of `$1` to `$17`.
 *
 * If you change this: events behind the end of a log, or of two servers between each other. `AppendPlanner`
 * decides ids, positions and instants for both engines.
 *
 * Decision pages: docs/decisions/0022-postgresql.md, docs/decisions/0028-conversation-leases.md
 */

import type { Instant } from '@slipway/protocol'
import { HeldElsewhereError } from '../../conversations/leases.ts'
import {
  type AppendPlan,
  AppendPlanner,
  type Extent,
  newStoredEvent,
  originalId,
} from '../../event-log/append-planner.ts'
import type { EventDraft, ReceivedEvent, RecordUpdate, StoredEvent } from '../../event-log/event-log.ts'
import type { KindSource, KindSourceNumbers } from '../../event-log/kind-source-numbers.ts'
import type { Rows, Session, Value } from '../database/database.ts'
import { foldedMessage } from '../text/folded-text.ts'
import type { LogHead, LogHeads } from './log-heads.ts'

/** What a transaction changes of a record, beside its title and tags. */
type StateUpdate = Omit<RecordUpdate, 'title' | 'missing_title' | 'tags'>

interface Statement {
  readonly sql: string
  readonly values: readonly Value[]
  result: Rows<readonly unknown[]> | undefined
}

interface HeadUpdate {
  readonly ordinal: number
  /** The head and the lease in the table: other values there mean that another server has written. */
  readonly expected: number
  readonly epoch: number
  extent: Extent
  update: StateUpdate
}

interface GroupContext {
  readonly heads: LogHeads
  readonly kindSources: KindSourceNumbers
  readonly now: () => Instant
  /** The id of this server, where several share the data. */
  readonly server: string | undefined
  /** Visible conversations, by id; absent ones do not exist. */
  readonly visible: ReadonlyMap<string, LogHead>
  /** Stored events, by `eventKey`. */
  readonly stored: ReadonlyMap<string, StoredEvent>
  readonly ordinals: number[]
}

/** The table is not as memory has it: the group is planned again with what the table has now. */
export class StaleGroupError extends Error {
  override readonly name = 'StaleGroupError'
}

/** Names an event of a conversation by its stored id. */
export function eventKey(ordinal: number, storedId: string): string {
  return `${ordinal} ${storedId}`
}

/** The state of a group of changes, and the statements that make them durable. */
export class GroupPlan {
  /** Heads that the group has changed; undefined for removed conversations. */
  readonly changedHeads = new Map<string, LogHead | undefined>()
  readonly newKindSources: KindSource[] = []
  readonly #context: GroupContext
  readonly #newEvents = new Map<string, StoredEvent>()
  readonly #updates = new Map<number, HeadUpdate>()
  readonly #sealed = new Map<number, Buffer>()
  readonly #fences = new Map<number, number>()
  readonly #statements: Statement[] = []
  readonly #events = new EventColumns()

  constructor(context: GroupContext) {
    this.#context = context
  }

  get isEmpty(): boolean {
    return this.#statements.length === 0 && this.#updates.size === 0 && this.#events.isEmpty
  }

  /** The head of a conversation that is changed. Throws HeldElsewhereError for one without a lease. */
  find(conversation: string): LogHead | undefined {
    const head = this.changedHeads.has(conversation)
      ? this.changedHeads.get(conversation)
      : this.#context.visible.get(conversation)
    const { server } = this.#context
    if (head !== undefined && server !== undefined && head.server !== server) throw new HeldElsewhereError()
    return head
  }

  /** Whether a conversation exists, whoever has its lease. */
  has(conversation: string): boolean {
    const { visible } = this.#context
    return this.changedHeads.has(conversation)
      ? this.changedHeads.get(conversation) !== undefined
      : visible.has(conversation)
  }

  /** The id of this server for a new row, where several share the data. */
  get server(): string | null {
    return this.#context.server ?? null
  }

  /** Refuses the group unless the conversation still has this epoch. `update` does it on its own. */
  fence({ ordinal, epoch }: Pick<LogHead, 'ordinal' | 'epoch'>): void {
    if (this.#context.server !== undefined) this.#fences.set(ordinal, epoch)
  }

  /** An ordinal for a new conversation. */
  takeOrdinal(): number {
    const ordinal = this.#context.ordinals.pop()
    if (ordinal === undefined) throw new Error('The change has not asked for an ordinal')
    return ordinal
  }

  /** Changes nothing. Throws a Problem `conflict` for an id that is stored with other content. */
  planAppend(ordinal: number, extent: Extent, events: readonly (EventDraft | ReceivedEvent)[]): AppendPlan {
    const find = (storedId: string) => {
      const key = eventKey(ordinal, storedId)
      return this.#newEvents.get(key) ?? this.#context.stored.get(key)
    }
    return new AppendPlanner(extent, find, this.#context.now()).plan(events)
  }

  insert(ordinal: number, newEvents: AppendPlan['newEvents']): void {
    for (const { event, storedId, kind, source, key } of newEvents) {
      const insert = (row: KindSource) => this.newKindSources.push(row)
      const facet = this.#context.kindSources.getNumber(kind, source, key, insert)
      this.#newEvents.set(eventKey(ordinal, storedId), event)
      this.#events.add(ordinal, storedId, facet, event)
    }
  }

  /** Sets a new extent, and changes the record. */
  update(head: LogHead, extent: Extent, { sealed, ...update }: StateUpdate = {}): void {
    const existing = this.#updates.get(head.ordinal)
    if (existing === undefined) {
      this.#updates.set(head.ordinal, {
        ordinal: head.ordinal,
        expected: head.head,
        epoch: head.epoch,
        extent,
        update,
      })
    } else {
      existing.extent = extent
      existing.update = { ...existing.update, ...definedMembers(update) }
    }
    if (sealed !== undefined) this.#sealed.set(head.ordinal, sealed)
    this.changedHeads.set(head.id, this.#context.heads.next(head, extent))
  }

  /** A conversation that is visible from now on. Its row is inserted by a statement. */
  add(id: string, ordinal: number, extent: Extent): LogHead {
    const head = this.#context.heads.create(id, ordinal, extent)
    this.changedHeads.set(id, head)
    return head
  }

  remove(head: LogHead): void {
    this.changedHeads.set(head.id, undefined)
    this.#updates.delete(head.ordinal)
    this.#sealed.delete(head.ordinal)
  }

  /** A statement that runs before the updates of heads, in the order of the calls. */
  run(sql: string, values: readonly Value[]): { readonly rowCount: number } {
    const statement: Statement = { sql, values, result: undefined }
    this.#statements.push(statement)
    return {
      get rowCount() {
        return statement.result?.rowCount ?? 0
      },
    }
  }

  async execute(session: Session): Promise<void> {
    if (this.#fences.size > 0) await this.#assertFences(session)
    for (const [number, kind, source] of this.newKindSources)
      await session.run(insertFacetSql, [number, Buffer.from(kind), Buffer.from(source)])
    for (const statement of this.#statements)
      statement.result = await session.run(statement.sql, statement.values)
    for (const [ordinal, sealed] of this.#sealed) await session.run(putSealedSql, [ordinal, sealed])
    if (this.#updates.size === 0 && this.#events.isEmpty) return
    const { rows } = await session.run<[number]>(writeSql, [...this.#events.values(), ...this.#headColumns()])
    if (rows[0]?.[0] !== this.#updates.size)
      throw new StaleGroupError('The end of a log is not where it was left')
  }

  async #assertFences(session: Session): Promise<void> {
    const values = [[...this.#fences.keys()], [...this.#fences.values()]]
    const { rows } = await session.run<[number]>(fenceSql, values)
    if (rows[0]?.[0] !== this.#fences.size) throw new StaleGroupError('A lease is over')
  }

  #headColumns(): Value[] {
    const all = [...this.#updates.values()]
    const text = (name: 'status' | 'stats' | 'request') =>
      all.map(({ update }) => (update[name] === undefined ? null : Buffer.from(update[name])))
    return [
      all.map(({ ordinal }) => ordinal),
      all.map(({ expected }) => expected),
      all.map(({ extent }) => extent.head),
      all.map(({ extent }) => extent.lastInstant ?? null),
      all.map(({ extent }) => extent.isInOrder),
      all.map(({ extent }) => extent.bytes),
      text('status'),
      text('stats'),
      text('request'),
      this.#context.now(),
      all.map(({ epoch }) => epoch),
      all.map(({ extent }) => extent.hasFiner),
    ]
  }
}

const insertFacetSql = 'INSERT INTO facet (number, kind, source) VALUES ($1, $2, $3)'
const fenceSql = `SELECT count(*) FROM (SELECT 1 FROM conversation
    JOIN unnest($1::bigint[], $2::integer[]) AS held (ordinal, epoch)
    ON conversation.ordinal = held.ordinal AND conversation.epoch = held.epoch
  FOR NO KEY UPDATE OF conversation) AS locked`
const putSealedSql = `INSERT INTO vault (ordinal, sealed) VALUES ($1, $2)
  ON CONFLICT (ordinal) DO UPDATE SET sealed = excluded.sealed`

/** All events of a group and all heads in one statement: the ids and the bodies are slices of two values. */
const writeSql = `WITH events AS (
    INSERT INTO event (conversation, position, instant, facet, id, body, finer)
    SELECT conversation, position, instant, facet, substring($7::bytea FROM id_at FOR id_length),
      substring($9::bytea FROM body_at FOR body_length), coalesce(finer, '')
    FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::integer[], $5::integer[], $6::integer[], $8::integer[], $10::integer[], $11::text[])
      AS new (conversation, position, instant, facet, id_at, id_length, body_at, body_length, finer)
  ), messages AS (
    INSERT INTO message (conversation, position, instant, facet, folded, finer)
    SELECT conversation, position, instant, facet, folded, coalesce(finer, '')
    FROM unnest($12::bigint[], $13::integer[], $14::bigint[], $15::integer[], $16::text[], $17::text[])
      AS new (conversation, position, instant, facet, folded, finer)
  ), heads AS (
    UPDATE conversation SET head = new.head, last_instant = new.last_instant, in_order = new.in_order,
      has_finer = new.has_finer, bytes = new.bytes, status = coalesce(new.status, conversation.status),
      stats = coalesce(new.stats, conversation.stats), request = coalesce(new.request, conversation.request),
      updated_at = greatest(conversation.updated_at + 1, $27::bigint)
    FROM unnest($18::bigint[], $19::integer[], $20::integer[], $21::bigint[], $22::boolean[], $23::bigint[], $24::bytea[], $25::bytea[], $26::bytea[],
        $28::integer[], $29::boolean[])
      AS new (ordinal, expected, head, last_instant, in_order, bytes, status, stats, request, epoch, has_finer)
    WHERE conversation.ordinal = new.ordinal AND conversation.head = new.expected AND conversation.epoch = new.epoch
    RETURNING 1
  )
  SELECT count(*) FROM heads`

/** The columns of new events. */
class EventColumns {
  readonly #numbers: number[][] = Array.from({ length: 8 }, () => [])
  readonly #messages: number[][] = Array.from({ length: 4 }, () => [])
  readonly #folded: string[] = []
  readonly #finer: string[] = []
  readonly #finerOfMessages: string[] = []
  readonly #ids: Buffer[] = []
  readonly #bodies: Buffer[] = []
  #idBytes = 0
  #bodyBytes = 0

  get isEmpty(): boolean {
    return this.#ids.length === 0
  }

  add(ordinal: number, storedId: string, facet: number, event: StoredEvent): void {
    const { position, instant, finer = '', bytes } = event
    const id = Buffer.from(storedId)
    const at = [this.#idBytes + 1, id.length, this.#bodyBytes + 1, bytes.length]
    push(this.#numbers, [ordinal, position, instant, facet, ...at])
    this.#finer.push(finer)
    this.#ids.push(id)
    this.#bodies.push(bytes)
    this.#idBytes += id.length
    this.#bodyBytes += bytes.length
    const folded = facet & 1 ? foldedMessage(bytes) : undefined
    if (folded === undefined) return
    push(this.#messages, [ordinal, position, instant, facet])
    this.#folded.push(folded)
    this.#finerOfMessages.push(finer)
  }

  /** The values of `$1` to `$17` of `writeSql`. */
  values(): Value[] {
    const [conversations = [], positions = [], instants = [], kindSources = [], ...slices] = this.#numbers
    const [idAt = [], idLengths = [], bodyAt = [], bodyLengths = []] = slices
    const ids = Buffer.concat(this.#ids)
    const bodies = Buffer.concat(this.#bodies)
    const events = [conversations, positions, instants, kindSources, idAt, idLengths, ids]
    const bodyColumns = [bodyAt, bodies, bodyLengths, withoutEmpty(this.#finer)]
    return [...events, ...bodyColumns, ...this.#messages, this.#folded, withoutEmpty(this.#finerOfMessages)]
  }
}

/** Nothing to send, as nearly always: the missing values are null. */
function withoutEmpty(texts: readonly string[]): readonly string[] {
  return texts.some((text) => text !== '') ? texts : []
}

function push(columns: readonly number[][], row: readonly number[]): void {
  for (const [index, value] of row.entries()) columns[index]?.push(value)
}

function definedMembers<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Partial<T>
}

/** The event of a row. */
export function toStoredEvent([position, storedId, instant, body, finer]: EventRow): StoredEvent {
  return newStoredEvent(position, originalId(storedId.toString()), { instant, finer }, body)
}

/** The columns of `eventColumns`. */
export type EventRow = readonly [
  position: number,
  storedId: Buffer,
  instant: number,
  body: Buffer,
  finer: string,
]
export const eventColumns = 'event.position, event.id, event.instant, event.body, event.finer'
