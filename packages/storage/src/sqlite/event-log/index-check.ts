/**
 * Compares the indexes of a conversation with its events.
 *
 * Problem: a changed bit in an event is found by its checksum. A changed bit in an index is no error: it
 * hides events, or shows events of another kind.
 *
 * Idea: before a process first uses the indexes of a conversation, SQLite counts and sums the same values
 * twice, from the rows alone and from each index alone. Any single changed entry changes a sum. The indexes
 * of order and those of ids are compared apart, because most requests use one of the two.
 *
 * Invariants:
 * - The two queries read different trees (`NOT INDEXED`, `INDEXED BY`); otherwise a tree would be compared
 *   with itself.
 * - Both see the same events: one transaction, while another thread may remove some (`areIndexesRight`).
 * - A long log is added up in steps, each from the last entry of the one before on. An entry out of order may
 *   lead a step astray: then entries are missing or added up twice, or a step does not go forward.
 * - The index is summed by its own value of the conversation, and an entry of another conversation counts
 *   (`isForeign`): an entry may say something else than the condition that found it.
 * - The entry that a search from the end finds first is the last one that was summed. So no entry is out of
 *   order where a search of this conversation could meet it.
 * - Terms are reduced by `prime` before they are multiplied, so that no product is rounded.
 * - Nothing is used before its first check has ended (`ensure`); later checks delay no request.
 * - What was found wrong is refused without another check until the file is opened again (`forget`). A check
 *   that failed for another reason is not remembered.
 * - `trust` is for conversations of which this process has written all rows.
 *
 * If you change this: filtered pages, counts and look-ups by id that are wrong without a word. Nothing is
 * repaired here: `slipway doctor --repair` does.
 *
 * Decision page: docs/decisions/0025-damaged-indexes.md
 */

import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { DamagedLogError, DamageError } from '../../event-log/damage.ts'
import { Database, type Value } from '../database/database.ts'
import { isDamaged } from '../database/storage-failure.ts'
import type { LogHead } from './log-heads.ts'
import { rowBase } from './schema.ts'

/** The indexes of order, kind and source, or the index of ids. */
export type IndexGroup = 'order' | 'ids'

/** A prime, so that a changed bit changes every sum below; products of two residues are exact. */
const prime = 67_108_859
const mix = (terms: string) => `sum((${terms}) % ${prime} * ((${terms}) % ${prime}) % ${prime})`
const rowTerm = `row % ${prime} * 8388593`

interface CheckedIndex {
  readonly name: string
  /** Columns that follow the conversation. */
  readonly columns: readonly string[]
  /** Their part of the sum. */
  readonly terms: string
  /** Which rows it has; all unless set. */
  readonly where?: string
}

const instantTerm = `instant % ${prime} * 6700417`
const indexes: Readonly<Record<IndexGroup, readonly CheckedIndex[]>> = {
  order: [
    {
      name: 'event_facet',
      columns: ['facet', 'instant'],
      terms: `${instantTerm} + facet % ${prime} * 7368787`,
    },
    { name: 'event_instant', columns: ['instant'], terms: instantTerm },
    { name: 'event_message', columns: [], terms: '0', where: 'facet & 1' },
  ],
  ids: [{ name: 'event_id', columns: ['id'], terms: `crc32_of(id) % ${prime} * 7368787` }],
}

interface Check {
  /** Adds rows up: from ?2 to ?3. */
  readonly rows: string
  /** Adds up to ?4 entries up, from the first one or from the one after the key in ?5 on. */
  readonly entries: (isFirst: boolean) => string
  /** Whether the last of these entries comes after that key, and its own. */
  readonly lastKey: (isFirst: boolean) => string
}

/**
 * Queries of the rows and of an index of them, which have the same answer. The entries of the conversation
 * are added up from the first one that a search finds on; none of them is of another conversation, and one of
 * them is the last one that a search from the end finds. So a search for any key of the conversation meets no
 * entry that is out of order: such an entry is among those that are added up, or it misleads the search for
 * the first or the last of them too.
 */
function checkOf({ name, columns, terms, where = 'TRUE' }: CheckedIndex): Check {
  const isCompared = 'row BETWEEN ?2 AND ?3'
  const isForeign = `row NOT BETWEEN ?2 AND ?2 + ${positionsPerConversation - 2}`
  const sum = (conversation: string) => mix(`${conversation} % ${prime} * 6291469 + ${rowTerm} + ${terms}`)
  const entries = `FROM event INDEXED BY ${name} WHERE conversation = ?1 AND ${where}`
  const columnsOfKey = [...columns, 'row']
  const key = columnsOfKey.join(', ')
  const fromEnd = columnsOfKey.map((column) => `${column} DESC`).join(', ')
  const before = columnsOfKey.map((_, at) => `?${5 + at}`).join(', ')
  const after = (isFirst: boolean) => (isFirst ? '' : `AND (${key}) > (${before})`)
  return {
    rows: `SELECT count(*), ${sum('?1')} FROM event NOT INDEXED WHERE ${isCompared} AND ${where}`,
    // The first value of an entry is read, because it may be another one than the condition says.
    entries: (
      isFirst,
    ) => `SELECT count(*) FILTER (WHERE ${isCompared}), ${sum('conversation')} FILTER (WHERE ${isCompared}),
        count(*) FILTER (WHERE ${isForeign}), count(*),
        count(*) FILTER (WHERE (${key}) = (SELECT ${key} ${entries} ORDER BY ${fromEnd} LIMIT 1))
      FROM (SELECT conversation, ${key} ${entries} ${after(isFirst)} ORDER BY ${key} LIMIT ?4)`,
    lastKey: (isFirst) => `SELECT ${isFirst ? '1' : `(${key}) > (${before})`}, ${key}
      ${entries} ${after(isFirst)} ORDER BY ${key} LIMIT 1 OFFSET ?4 - 1`,
  }
}

const checks: Readonly<Record<IndexGroup, readonly Check[]>> = {
  order: indexes.order.map(checkOf),
  ids: indexes.ids.map(checkOf),
}

/** A conversation, up to its head. */
export interface Compared {
  readonly ordinal: number
  readonly head: number
}

/** Of a connection that compares. */
const cacheBytes = 1024 * 1024
/** Of a step: some milliseconds. */
const defaultStepRows = 5_000

/**
 * Whether the indexes of a conversation have what its rows up to the head say, nothing less and nothing else.
 */
export function areIndexesRight(db: Database, group: IndexGroup, compared: Compared): boolean {
  return db.savepoint(() => {
    const steps = compareIndexes(db, group, compared)
    for (;;) {
      const { done, value } = steps.next()
      if (done) return value
    }
  })
}

/** `areIndexesRight` in steps, all of them in one transaction of the caller. */
export function* compareIndexes(
  db: Database,
  group: IndexGroup,
  compared: Compared,
  stepRows = defaultStepRows,
): Generator<void, boolean> {
  for (const check of checks[group]) {
    const rows = yield* addRows(db, check, compared, stepRows)
    const entries = yield* addEntries(db, check, compared, stepRows)
    if (entries === undefined || !rows.every((value, n) => value === entries[n])) return false
  }
  return true
}

/** `compareIndexes` with its own connection: the others see what is written meanwhile. */
export function* compareIndexesApart(
  path: string,
  group: IndexGroup,
  compared: Compared,
): Generator<void, boolean> {
  const db = new Database(path, { readOnly: true, synchronous: 'FULL', cacheBytes, migrations: [] })
  try {
    db.run('BEGIN')
    return yield* compareIndexes(db, group, compared)
  } finally {
    db.close()
  }
}

/** How many there are, and their sum. */
type Sums = readonly [count: number, sum: number]

function* addRows(
  db: Database,
  { rows }: Check,
  { ordinal, head }: Compared,
  stepRows: number,
): Generator<void, Sums> {
  const base = rowBase(ordinal)
  let [count, sum] = [0, 0]
  for (let from = 1; from <= head; from += stepRows) {
    const to = Math.min(head, from + stepRows - 1)
    const [more = 0, ofMore] = db.get<[number, number | null]>(rows, ordinal, base + from, base + to) ?? []
    count += more
    sum += ofMore ?? 0
    yield
  }
  return [count, sum]
}

/** Undefined where the index is wrong in itself. */
function* addEntries(
  db: Database,
  check: Check,
  { ordinal, head }: Compared,
  stepRows: number,
): Generator<void, Sums | undefined> {
  const base = rowBase(ordinal)
  const step = [ordinal, base + 1, base + head, stepRows] as const
  let [count, sum, lasts] = [0, 0, 0]
  for (let key: Value[] = []; ; ) {
    const isFirst = key.length === 0
    const [more = 0, ofMore, foreign = 0, all = 0, last = 0] =
      db.get<[number, number | null, number, number, number]>(check.entries(isFirst), ...step, ...key) ?? []
    count += more
    sum += ofMore ?? 0
    lasts += last
    if (foreign > 0) return undefined
    yield
    if (all < stepRows) return lasts === (isFirst ? Math.min(all, 1) : 1) ? [count, sum] : undefined
    const [isForward, ...next] = db.get<[number, ...Value[]]>(check.lastKey(isFirst), ...step, ...key) ?? []
    if (isForward !== 1) return undefined
    key = next
  }
}

/** Conversations up to this length are checked at once, longer ones by a thread. */
const maxEventsAtOnce = 2_000
const maxRemembered = 100_000
/** Indexes in use are compared again when the last time is this long ago. */
const defaultRecheckMs = 600_000

interface IndexGuardOptions {
  readonly db: Database
  /** `areIndexesRight` in another thread. */
  checkElsewhere(group: IndexGroup, compared: Compared): Promise<boolean>
  onDamage(error: DamageError): void
  /** Ten minutes unless passed. */
  readonly recheckMs?: number
}

/**
 * Compares the indexes of a conversation with its rows before they are first used, and again from time to
 * time, in the background.
 */
export class IndexGuard {
  readonly #options: IndexGuardOptions
  /** When the last check of right indexes began, in milliseconds of `performance.now`. */
  readonly #checked = new Map<number, number | DamageError>()
  readonly #running = new Map<number, Promise<void>>()

  constructor(options: IndexGuardOptions) {
    this.#options = options
  }

  /** All rows of the conversation are written by this process. */
  trust(ordinal: number): void {
    const now = performance.now()
    for (const group of ['order', 'ids'] as const) this.#remember(keyOf(group, ordinal), now)
  }

  /**
   * Undefined when the indexes are known to be right; otherwise resolves after the check. Throws, or rejects
   * with, a DamageError when they are wrong.
   */
  ensure(group: IndexGroup, { id, ordinal, head }: LogHead): Promise<void> | undefined {
    const compared = { ordinal, head }
    const key = keyOf(group, ordinal)
    const now = performance.now()
    const known = this.#checked.get(key)
    if (known instanceof DamageError) throw this.#report(known)
    const { db, checkElsewhere, recheckMs = defaultRecheckMs } = this.#options
    const finish = (isRight: boolean) => {
      const error = new DamageError(id, 'index', 'does not match its events')
      this.#remember(key, isRight ? now : error)
      if (!isRight) throw this.#report(error)
    }
    const fail = (cause: unknown): never => {
      if (!isDamaged(cause) && !(cause instanceof DamagedLogError)) throw cause
      const error = new DamageError(id, 'log', 'has a page that cannot be read', cause)
      this.#remember(key, error)
      throw this.#report(error)
    }
    if (known !== undefined) {
      if (now - known < recheckMs) return undefined
      this.#remember(key, now)
      // It is reported when it is wrong; a check that cannot be made is made another time.
      void checkElsewhere(group, compared)
        .then(finish, fail)
        .catch(() => {})
      return undefined
    }
    if (head <= maxEventsAtOnce)
      return void finish(this.#checkAtOnce(() => areIndexesRight(db, group, compared), fail))
    const running =
      this.#running.get(key) ??
      checkElsewhere(group, compared)
        .then(finish, fail)
        .finally(() => this.#running.delete(key))
    this.#running.set(key, running)
    return running
  }

  /** Another file may be at the path of the log now. */
  forget(): void {
    this.#checked.clear()
  }

  #checkAtOnce(check: () => boolean, fail: (cause: unknown) => never): boolean {
    try {
      return check()
    } catch (error) {
      return fail(error)
    }
  }

  #remember(key: number, result: number | DamageError): void {
    if (this.#checked.size >= maxRemembered) this.#checked.clear()
    this.#checked.set(key, result)
  }

  #report(error: DamageError): DamageError {
    this.#options.onDamage(error)
    return error
  }
}

function keyOf(group: IndexGroup, ordinal: number): number {
  return group === 'ids' ? ordinal : ordinal + positionsPerConversation
}
