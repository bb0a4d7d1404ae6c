import type { Instant } from '@slipway/protocol'
import { Signal } from '@slipway/shared/async'
import type { Deliveries, PendingDelivery } from '../../deliveries/deliveries.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { GroupCommit } from '../group-commit/group-commit.ts'

type Row = readonly [
  conversation: string,
  visible: number | null,
  head: number | null,
  changed: Instant | null,
  ordinal: number | null,
  position: number | null,
  updated_at: Instant | null,
]

const selectSql = `SELECT wanted.id, visible.ordinal, visible.head, visible.updated_at,
    delivery.ordinal, delivery.position, delivery.updated_at
  FROM unnest($2::text[]) WITH ORDINALITY AS wanted (id, number)
  LEFT JOIN conversation AS visible ON visible.id = wanted.id AND visible.is_visible
  LEFT JOIN delivery ON receiver = $1 AND delivery.conversation = wanted.id
  ORDER BY wanted.number`
const insertCursorsSql = `INSERT INTO delivery (receiver, conversation, ordinal, position)
  SELECT $1, id, ordinal, 0 FROM unnest($2::text[], $3::bigint[]) AS new (id, ordinal) ON CONFLICT DO NOTHING`
/** Writes a cursor in the conversation that the receiver knows; in the present one when it knows none. */
const putSql = `INSERT INTO delivery (receiver, conversation, ordinal, position, updated_at)
  SELECT $1, $2, coalesce(known.ordinal, visible.ordinal),
    CASE WHEN visible.ordinal = coalesce(known.ordinal, visible.ordinal)
      THEN least($3::bigint, visible.head) ELSE $3::bigint END, $4
  FROM (SELECT 1) AS one
  LEFT JOIN conversation AS visible ON visible.id = $2 AND visible.is_visible
  LEFT JOIN delivery AS known ON known.receiver = $1 AND known.conversation = $2
  WHERE coalesce(known.ordinal, visible.ordinal) IS NOT NULL
  ON CONFLICT (receiver, conversation) DO UPDATE SET position = excluded.position, updated_at = excluded.updated_at`
const forgetSql = 'DELETE FROM delivery WHERE receiver = $1 AND conversation = $2'
const removedSql = `SELECT delivery.conversation FROM delivery
  LEFT JOIN conversation ON conversation.id = delivery.conversation AND is_visible
  WHERE receiver = $1 AND conversation.ordinal IS DISTINCT FROM delivery.ordinal`
const changedSql = `SELECT conversation.id FROM conversation
  LEFT JOIN delivery ON receiver = $1 AND delivery.conversation = conversation.id
  WHERE is_visible AND (delivery.ordinal IS DISTINCT FROM conversation.ordinal
    OR delivery.position < head OR delivery.updated_at IS DISTINCT FROM conversation.updated_at)
  ORDER BY conversation.updated_at, conversation.ordinal`

/** Conversations that may be pending, the longest waiting first, with the number of the last change. */
type Candidates = Map<string, number>

/** What one server at a time does, where several share the data. */
interface Duties {
  holdsDuty(name: string): Promise<boolean>
}

/** Between two looks at a receiver that another server delivers to. */
const dutyMs = 1_000

/**
 * Deliveries on PostgreSQL: the tables say what is pending, memory says where to look, as with SQLite. A row
 * is a receiver's cursor in the conversation of one ordinal. Where servers share the data, one of them
 * delivers to a receiver: the others have nothing pending.
 */
export class PostgresDeliveries implements Deliveries {
  readonly #db: PostgresDatabase
  readonly #writer: GroupCommit
  readonly #duties: Duties | undefined
  readonly #candidates = new Map<string, Candidates>()
  readonly #loading = new Map<string, Promise<Candidates>>()
  #changes = 0
  #standingBy: NodeJS.Timeout | undefined
  readonly changeSignal = new Signal()

  constructor(db: PostgresDatabase, writer: GroupCommit, duties?: Duties) {
    this.#db = db
    this.#writer = writer
    this.#duties = duties
  }

  /** Reads what is pending from the tables again. */
  reload(): void {
    this.#candidates.clear()
    this.#loading.clear()
    this.changeSignal.notify()
  }

  /** Call it after the commit of a change. */
  markChanged(conversation: string): void {
    this.#changes += 1
    for (const candidates of this.#candidates.values()) candidates.set(conversation, this.#changes)
    this.changeSignal.notify()
  }

  async listPending(
    receiver: string,
    limit: number,
    except: ReadonlySet<string> = new Set(),
  ): Promise<readonly PendingDelivery[]> {
    if ((await this.#duties?.holdsDuty(`webhooks ${receiver}`)) === false) {
      this.#standBy(receiver)
      return []
    }
    const candidates = await this.#candidatesFor(receiver)
    const pending: PendingDelivery[] = []
    const newCursors: (readonly [conversation: string, ordinal: number])[] = []
    const open = [...candidates].filter(([conversation]) => !except.has(conversation))
    while (pending.length < limit && open.length > 0) {
      const chunk = open.splice(0, limit - pending.length)
      const ids = chunk.map(([conversation]) => conversation)
      for (const [index, row] of (await this.#db.query<Row>(selectSql, [receiver, ids])).entries()) {
        const [conversation, visible, , , cursor] = row
        const delivery = pendingDelivery(row)
        if (delivery !== undefined) pending.push(delivery)
        // A change since the list was made is pending, whatever the row says.
        else if (candidates.get(conversation) === chunk[index]?.[1]) candidates.delete(conversation)
        if (cursor === null && visible !== null) newCursors.push([conversation, visible])
      }
    }
    if (newCursors.length > 0) await this.#insertCursors(receiver, newCursors)
    return pending
  }

  async advance(
    receiver: string,
    conversation: string,
    to: { readonly position: number; readonly updated_at: Instant | null },
  ): Promise<void> {
    const { position, updated_at } = to
    if (!Number.isSafeInteger(position) || position < 0 || !Number.isSafeInteger(updated_at ?? 0))
      throw new Error('a cursor is a position and a moment')
    await this.#write(receiver, conversation, putSql, [position, updated_at])
  }

  async forget(receiver: string, conversation: string): Promise<void> {
    await this.#write(receiver, conversation, forgetSql, [])
  }

  async #write(
    receiver: string,
    conversation: string,
    sql: string,
    values: readonly (number | null)[],
  ): Promise<void> {
    await this.#writer.write({
      plan: (group) => ({
        apply: () => void group.run(sql, [receiver, conversation, ...values]),
        done: () => this.#moveToEnd(receiver, conversation),
      }),
    })
  }

  /**
   * Cursors at 0 are written before the first delivery: when the process dies after it, the receiver must
   * still learn that the conversation was removed.
   */
  async #insertCursors(receiver: string, cursors: readonly (readonly [string, number])[]): Promise<void> {
    const ids = cursors.map(([conversation]) => conversation)
    const ordinals = cursors.map(([, ordinal]) => ordinal)
    await this.#writer.write({
      plan: (group) => ({ apply: () => void group.run(insertCursorsSql, [receiver, ids, ordinals]) }),
    })
  }

  /** Another server delivers: what memory has of the receiver gets old. */
  #standBy(receiver: string): void {
    this.#candidates.delete(receiver)
    this.#loading.delete(receiver)
    if (this.#standingBy !== undefined) return
    this.#standingBy = setTimeout(() => {
      this.#standingBy = undefined
      this.changeSignal.notify()
    }, dutyMs).unref()
  }

  async #candidatesFor(receiver: string): Promise<Candidates> {
    const loading = this.#loading.get(receiver) ?? this.#load(receiver)
    this.#loading.set(receiver, loading)
    return await loading
  }

  /** Changes during the load follow what it finds. */
  async #load(receiver: string): Promise<Candidates> {
    const changed: Candidates = new Map()
    this.#candidates.set(receiver, changed)
    try {
      const rows = [
        ...(await this.#db.query<[string]>(removedSql, [receiver])),
        ...(await this.#db.query<[string]>(changedSql, [receiver])),
      ]
      const candidates: Candidates = new Map([...rows.map(([id]) => [id, 0] as const), ...changed])
      if (this.#candidates.get(receiver) === changed) this.#candidates.set(receiver, candidates)
      return candidates
    } catch (error) {
      this.#loading.delete(receiver)
      throw error
    }
  }

  #moveToEnd(receiver: string, conversation: string): void {
    const candidates = this.#candidates.get(receiver)
    candidates?.delete(conversation)
    candidates?.set(conversation, ++this.#changes)
  }
}

/** Undefined when the receiver has everything. */
function pendingDelivery(row: Row): PendingDelivery | undefined {
  const [conversation, visible, head, changed, ordinal, position, updated_at] = row
  if (ordinal === null || position === null)
    return visible === null ? undefined : { conversation, position: 0, updated_at: null, isRemoved: false }
  if (visible !== ordinal) return { conversation, position, updated_at, isRemoved: true }
  const isBehind = position < (head ?? 0) || updated_at !== changed
  return isBehind ? { conversation, position, updated_at, isRemoved: false } : undefined
}
