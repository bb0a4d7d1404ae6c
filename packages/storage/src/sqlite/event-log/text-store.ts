/**
 * The trigram index of message texts: index.db, filled and searched in a thread.
 *
 * Problem: a search for a part of a word reads all messages. An index in log.db would delay appends.
 * Idea: a database apart, which is a cache: folded texts, their trigrams, and how far each conversation is
 * indexed (`upto`). Messages above that are read from the log.
 *
 * Invariants:
 * - log.db is only read here, and a message is verified before its text counts (`parseMessageTexts`).
 * - `upto` and the rows up to it are written in one transaction, so a search misses nothing.
 * - A trigram match is a candidate; a hit has the bytes of the needle in `parts` (`matchSql`).
 * - `#checkpoint` alone changes pages, after the seal (`index-seal.ts`); an index of another log is rebuilt.
 * - A search continues by row after each slice: the index may have grown or been rebuilt meanwhile.
 *
 * If you change this: searches that miss messages. Decision page: docs/decisions/0003-text-index-apart.md
 */

import { existsSync, rmSync, statSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { compareMoments, type Moment } from '@slipway/protocol/instant'
import { messageTexts } from '@slipway/protocol/message-texts'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { DamagedRowError } from '../../event-log/damage.ts'
import { encodeParts, indexText, type Needle } from '../../text/needle.ts'
import { readBody } from '../blobs/blobs.ts'
import { Database, toBuffer } from '../database/database.ts'
import { readIdentity } from '../database/log-identity.ts'
import { readableRows } from '../database/readable-rows.ts'
import {
  type CompactedFile,
  type CompactOptions,
  compactInSteps,
  minReclaimedPages,
  reclaimSpace,
} from '../database/reclaim-space.ts'
import { eventChecksum } from './checksum.ts'
import { compareRows, rowBounds, type Selection } from './event-search.ts'
import { IndexSeal, removeSeal } from './index-seal.ts'
import { countByMoment } from './moment-search.ts'
import { rowBase } from './schema.ts'
import { indexMigrations, matchSql, newMessagesSql, scanEndSql, scanSql, unindexedSql } from './text-sql.ts'

const allHeadsSql = (condition: string) => `SELECT ordinal, head FROM conversation WHERE ${condition}`
const visibleHeadsSql = (condition: string) => `${allHeadsSql(condition)} AND is_visible = 1`

const rowsPerForget = 500
const pagesPerMerge = 500
/** Of the write-ahead log, at which it is moved into the file. */
const checkpointBytes = 8 * 1024 * 1024

/** Rows of a first step through the index, without and with trigrams. */
const scannedRows = 4_096
const matchedRows = 65_536
/** Messages sampled to find rare trigrams; the index walks the whole list of each trigram of a match. */
const sampleSize = 64
const maxTokensPerMatch = 8

type UnindexedRow = readonly [
  row: number,
  id: string,
  instant: number,
  body: Uint8Array,
  facet: number,
  checksum: number | null,
  finer: string,
]
type Hit = readonly [row: number, facet: number, instant: number, finer?: string | undefined]

interface Range {
  readonly low: number
  readonly high: number
}

interface SliceRange extends Range {
  readonly sliceMs: number
}

/** What a search may do between two turns of other work; undefined is the end of its slice. */
type SlicedHits = Generator<Hit | undefined>

/** Messages to be indexed at which a slice of the builder is twice as long as one of a search. */
const longLag = 25_000

/** Trigram index of message texts, built from log.db. */
export class TextStore {
  readonly #log: Database
  readonly #indexPath: string
  #index: Database
  #seal: IndexSeal | undefined

  constructor(logPath: string, indexPath: string) {
    this.#log = new Database(logPath, {
      readOnly: true,
      synchronous: 'FULL',
      cacheBytes: 2_097_152,
      migrations: [],
    })
    this.#indexPath = indexPath
    this.#index = this.#open() ?? this.rebuild()
  }

  /** Replaces the index by an empty one. */
  rebuild(): Database {
    this.#index?.close()
    removeSeal(this.#indexPath)
    for (const suffix of ['', '-wal', '-shm']) rmSync(this.#indexPath + suffix, { force: true })
    const index = this.#open()
    if (index === undefined) throw new Error('The text index cannot be created')
    this.#index = index
    return index
  }

  close(): void {
    this.#log.close()
    this.#checkpoint()
    this.#index.close()
  }

  /** Conversations with unindexed events. */
  listPending(): number[] {
    const upto = new Map(this.#index.all<[number, number]>('SELECT ordinal, upto FROM indexed'))
    const heads = readableRows<[number, number]>(this.#log, visibleHeadsSql)
    return heads.flatMap(([ordinal, head]) => (head > (upto.get(ordinal) ?? 0) ? [ordinal] : []))
  }

  /** Its last position; undefined when no one sees the conversation. */
  findHead(ordinal: number): number | undefined {
    const sql = 'SELECT head FROM conversation WHERE ordinal = ? AND is_visible = 1'
    return this.#log.get<[number]>(sql, ordinal)?.[0]
  }

  /**
   * Indexes messages of a conversation for about `sliceMs`, up to twice as long where many wait; returns
   * whether there are more.
   *
   * @param end no position after it.
   */
  index(ordinal: number, end: number, sliceMs: number): boolean {
    const head = Math.min(this.findHead(ordinal) ?? 0, end)
    const upto = this.#indexedPosition(ordinal)
    if (head <= upto) return false
    const until = performance.now() + sliceMs * (1 + Math.min(1, (head - upto) / longLag))
    const base = rowBase(ordinal)
    return this.#write(() => {
      for (const row of this.#log.iterate<UnindexedRow>(newMessagesSql, base + upto + 1, base + head)) {
        this.#add(row)
        if (performance.now() < until) continue
        this.#setIndexedPosition(ordinal, row[0] - base)
        return true
      }
      this.#setIndexedPosition(ordinal, head)
      return false
    })
  }

  /** Removes some rows of a conversation; returns whether there are more. */
  forget(ordinal: number): boolean {
    const base = rowBase(ordinal)
    const sql = 'SELECT row FROM message WHERE row BETWEEN ? AND ? ORDER BY row LIMIT ?'
    const rows = this.#index.all<[number]>(sql, base, base + positionsPerConversation - 1, rowsPerForget)
    this.#write(() => {
      for (const [row] of rows) {
        this.#index.run('DELETE FROM trigram WHERE rowid = ?', row)
        this.#index.run('DELETE FROM message WHERE row = ?', row)
      }
      if (rows.length < rowsPerForget) this.#index.run('DELETE FROM indexed WHERE ordinal = ?', ordinal)
    })
    return rows.length === rowsPerForget
  }

  /** Gives the space of deleted conversations back. Space that is not worth the writes stays. */
  async reclaim(isStopped: () => boolean): Promise<void> {
    this.#mergeDeleted()
    if (this.#index.reclaimablePages() < minReclaimedPages) return
    await reclaimSpace(this.#index, {
      write: (apply) => this.#write(apply),
      waitBetween: () => nextTurn(),
      isStopped,
    })
    if (!isStopped()) this.#checkpoint()
  }

  async compact(options: CompactOptions): Promise<CompactedFile> {
    this.#mergeDeleted()
    return await compactInSteps(this.#index, (apply) => this.#write(apply), {
      ...options,
      checkpoint: () => this.#checkpoint(),
    })
  }

  /**
   * Rows of messages with the needle, in the order and up to the limit of the selection. Yields after each
   * slice of what it reads beyond the index, where other work may be done.
   */
  *search(selection: Selection, needle: Needle, sliceMs: number): Generator<void, number[]> {
    const { extent, limit, isDescending, start } = selection
    const order = extent.hasFiner ? compareHits(isDescending) : compareRows(isDescending)
    const first: Hit | undefined = start && [start.row, 0, start.instant, start.finer]
    const hits: Hit[] = []
    for (const hit of this.#findHits(selection, needle, sliceMs)) {
      if (hit === undefined) yield
      else if (extent.isInOrder || first === undefined || order(hit, first) >= 0) hits.push(hit)
      if (extent.isInOrder && hits.length === limit) break
    }
    const ordered = extent.isInOrder ? hits : hits.sort(order)
    return ordered.slice(0, limit).map(([row]) => row)
  }

  *countMatches(selection: Selection, needle: Needle, sliceMs: number): Generator<void, number> {
    let count = 0
    for (const hit of this.#findHits(selection, needle, sliceMs)) {
      if (hit === undefined) yield
      else count += 1
    }
    return count
  }

  /** Counts the events that match the filters other than a needle. */
  count(selection: Selection): number {
    const { ordinal, extent, kindSources, from, before } = selection
    if (extent.hasFiner) return countByMoment(this.#log, selection)
    const low = from ?? Number.MIN_SAFE_INTEGER
    const high = (before ?? Number.MAX_SAFE_INTEGER) - 1
    const lastRow = rowBase(ordinal) + extent.head
    const count = (sql: string, ...more: number[]) =>
      this.#log.get<[number]>(sql, ordinal, low, high, lastRow, ...more)?.[0] ?? 0
    if (kindSources === undefined) return count(countSql('event_instant', ''))
    const sql = countSql('event_facet', 'AND facet = ?5')
    return kindSources.reduce((sum, number) => sum + count(sql, number), 0)
  }

  /** What the trigram index has of deleted rows goes when its segments are merged, some at a time. */
  #mergeDeleted(): void {
    this.#write(() => {
      for (const pages of [-pagesPerMerge, pagesPerMerge])
        this.#index.run("INSERT INTO trigram (trigram, rank) VALUES ('merge', ?)", pages)
    })
  }

  #write<T>(apply: () => T): T {
    this.#checkpoint(checkpointBytes)
    return this.#index.transaction(apply)
  }

  /** Moves the write-ahead log into the file when it is that long, after the seal of what it has. */
  #checkpoint(minBytes = 0): void {
    const { size = 0 } = statSync(`${this.#indexPath}-wal`, { throwIfNoEntry: false }) ?? {}
    if (size <= minBytes) return
    this.#seal?.write()
    this.#index.checkpoint()
  }

  /** Undefined when the index was changed or damaged, belongs to another log or is ahead of this one. */
  #open(): Database | undefined {
    const isThere = existsSync(this.#indexPath)
    this.#seal = isThere ? IndexSeal.open(this.#indexPath) : IndexSeal.create(this.#indexPath)
    if (this.#seal === undefined) return undefined
    let index: Database | undefined
    try {
      index = new Database(this.#indexPath, {
        synchronous: 'NORMAL',
        cacheBytes: 4_194_304,
        isReclaimable: true,
        migrations: indexMigrations,
      })
      index.pragma('wal_autocheckpoint = 0')
      const { store, generation } = readIdentity(this.#log) ?? { store: '', generation: 1 }
      const stored = readIdentity(index)
      if (stored === undefined) {
        index.run('INSERT INTO store VALUES (?, ?)', store, generation)
        this.#seal.write()
        index.checkpoint()
        return index
      }
      if (stored.store === store && stored.generation === generation && !this.#isAhead(index)) return index
    } catch {
      // A damaged index is rebuilt.
    }
    index?.close()
    return undefined
  }

  #isAhead(index: Database): boolean {
    const heads = new Map(readableRows<[number, number]>(this.#log, allHeadsSql))
    const indexed = index.all<[number, number]>('SELECT ordinal, upto FROM indexed')
    return indexed.some(([ordinal, upto]) => upto > (heads.get(ordinal) ?? upto))
  }

  #indexedPosition(ordinal: number): number {
    return this.#index.get<[number]>('SELECT upto FROM indexed WHERE ordinal = ?', ordinal)?.[0] ?? 0
  }

  #setIndexedPosition(ordinal: number, upto: number): void {
    this.#index.run('INSERT OR REPLACE INTO indexed (ordinal, upto) VALUES (?, ?)', ordinal, upto)
  }

  #add(event: UnindexedRow): void {
    const [row, , instant, , facet] = event
    const { folded, bytes } = encodeParts(parseMessageTexts(this.#log, event))
    if (folded.length === 0) return
    this.#index.run(
      'INSERT INTO message (row, facet, instant, parts) VALUES (?, ?, ?, ?)',
      row,
      facet,
      instant,
      bytes,
    )
    const text = `${folded.map(indexText).join('\n')}\n${kindSourceMark(facet)}`
    this.#index.run('INSERT INTO trigram (rowid, text) VALUES (?, ?)', row, text)
  }

  /** Matches in order of position; in a log in order of time from the start of the page. */
  *#findHits(selection: Selection, needle: Needle, sliceMs: number): SlicedHits {
    const { extent, kindSources, from, before } = selection
    for (const hit of this.#findInRanges(selection, needle, sliceMs)) {
      const [row = 0, facet = 0, instant = 0] = hit ?? []
      if (hit !== undefined) {
        if (kindSources !== undefined && !kindSources.includes(facet)) continue
        if (extent.hasFiner) {
          const moment = this.#momentOf(row)
          if (isWithin(selection, moment)) yield [row, facet, moment.instant, moment.finer]
          continue
        }
        if ((from !== undefined && instant < from) || (before !== undefined && instant >= before)) continue
      }
      yield hit
    }
  }

  *#findInRanges(selection: Selection, needle: Needle, sliceMs: number): SlicedHits {
    const { ordinal, extent, isDescending } = selection
    const base = rowBase(ordinal)
    const bounds = extent.isInOrder
      ? rowBounds(this.#log, selection)
      : { low: base + 1, high: base + extent.head }
    for (let { low, high } = bounds ?? { low: 1, high: 0 }; low <= high; ) {
      const end = base + this.#indexedPosition(ordinal)
      const isIndexed = (isDescending ? high : low) <= end
      const range = isIndexed
        ? { low, high: Math.min(high, end), sliceMs }
        : { low: Math.max(low, end + 1), high, sliceMs }
      const last = yield* isIndexed
        ? this.#findIndexed(selection, needle, range)
        : this.#findUnindexed(selection, needle, range)
      if (isDescending) high = (last ?? range.low) - 1
      else low = (last ?? range.high) + 1
      if (last !== undefined) yield undefined
    }
  }

  /** The index of texts has instants alone. */
  #momentOf(row: number): Moment {
    const sql = 'SELECT instant, finer FROM event WHERE row = ?'
    const [instant, finer] = this.#log.get<[number, string]>(sql, row) ?? [0, '']
    return { instant, finer }
  }

  /** Returns the row at which a slice ended; undefined at the end of the range. */
  *#findIndexed(selection: Selection, needle: Needle, range: SliceRange): Generator<Hit, number | undefined> {
    const { isDescending } = selection
    const order = isDescending ? 'DESC' : 'ASC'
    const { low, high } = range
    if (needle.trigrams.length === 0)
      return yield* inSlices({ ...range, isDescending, rows: scannedRows }, (part) =>
        this.#index.iterate<Hit>(scanSql(order), part.low, part.high, needle.bytes),
      )
    const [edge] = this.#index.get<[number]>(scanEndSql(order), low, high) ?? []
    const near = isDescending ? { low: edge ?? low, high } : { low, high: edge ?? high }
    yield* this.#index.iterate<Hit>(scanSql(order), near.low, near.high, needle.bytes)
    if (edge === undefined) return undefined
    const rest = isDescending ? { low, high: edge - 1 } : { low: edge + 1, high }
    const tokens = this.#rarestTokens(selection, needle, rest)
    const match = tokens.map((text) => `"${text.replaceAll('"', '""')}"`).join(' AND ')
    return yield* inSlices({ ...range, ...rest, isDescending, rows: matchedRows }, (part) =>
      this.#index.iterate<Hit>(matchSql(order), part.low, part.high, match, needle.bytes),
    )
  }

  /** The most selective trigrams of a needle, and the mark of a source filter, by a sample of the range. */
  #rarestTokens({ kindSources }: Selection, needle: Needle, { low, high }: Range): string[] {
    const sql = 'SELECT facet, parts FROM message WHERE row BETWEEN ? AND ? ORDER BY row LIMIT ?'
    const sample = this.#index.all<[number, Uint8Array]>(sql, low, high, sampleSize)
    const texts = sample.map(([, parts]) => toBuffer(parts))
    const tokens = needle.trigrams.map((text) => ({
      text,
      count: texts.filter((parts) => parts.includes(text)).length,
    }))
    const mark = kindSources?.length === 1 ? kindSources[0] : undefined
    if (mark !== undefined) {
      tokens.push({ text: kindSourceMark(mark), count: sample.filter(([facet]) => facet === mark).length })
    }
    tokens.sort((a, b) => a.count - b.count)
    const sparse = tokens.filter(({ count }) => count < sample.length / 10).length
    return tokens.slice(0, Math.min(maxTokensPerMatch, Math.max(2, sparse))).map(({ text }) => text)
  }

  *#findUnindexed(
    { ordinal, isDescending }: Selection,
    needle: Needle,
    { low, high, sliceMs }: SliceRange,
  ): Generator<Hit, number | undefined> {
    const until = performance.now() + sliceMs
    const sql = unindexedSql(isDescending ? 'DESC' : 'ASC')
    for (const event of this.#log.iterate<UnindexedRow>(sql, ordinal, low, high)) {
      const [row, , instant, , facet] = event
      if (encodeParts(parseMessageTexts(this.#log, event)).bytes.includes(needle.bytes))
        yield [row, facet, instant]
      if (performance.now() >= until) return row
    }
    return undefined
  }
}

/**
 * Reads a range in steps until a slice is over, each of twice the rows: most ranges are empty to the index,
 * and a step costs something. Returns the last row; undefined at the end of the range.
 */
function* inSlices(
  { low, high, isDescending, sliceMs, ...first }: SliceRange & { isDescending: boolean; rows: number },
  read: (part: Range) => Iterable<Hit>,
): Generator<Hit, number | undefined> {
  const until = performance.now() + sliceMs
  for (let [from, to, { rows }] = [low, high, first]; from <= to; rows *= 2) {
    const part = isDescending
      ? { low: Math.max(from, to - rows + 1), high: to }
      : { low: from, high: Math.min(to, from + rows - 1) }
    yield* read(part)
    if (isDescending) to = part.low - 1
    else from = part.high + 1
    if (performance.now() >= until && from <= to) return isDescending ? part.low : part.high
  }
  return undefined
}

function compareHits(isDescending: boolean): (a: Hit, b: Hit) => number {
  const sign = isDescending ? -1 : 1
  const moment = ([, , instant, finer]: Hit): Moment => ({ instant, finer })
  return (a, b) => sign * (compareMoments(moment(a), moment(b)) || a[0] - b[0])
}

function isWithin({ bounds: { from, before } }: Selection, moment: Moment): boolean {
  const isFrom = from === undefined || compareMoments(moment, from) >= 0
  return isFrom && (before === undefined || compareMoments(moment, before) < 0)
}

function countSql(index: string, facet: string): string {
  return `SELECT count(*) FROM event INDEXED BY ${index}
    WHERE conversation = ?1 AND instant BETWEEN ?2 AND ?3 AND row <= ?4 ${facet}`
}

/** A trigram of private characters for a pair of kind and source, so that the index can filter by it. */
function kindSourceMark(number: number): string {
  return `\u{e000}\u{e001}${String.fromCodePoint(0xf0000 + ((number >> 1) % 0xfffd))}`
}

/** Throws when the event is not what was written: nobody would find its text. */
function parseMessageTexts(log: Database, event: UnindexedRow): string[] {
  const [row, id, instant, stored, , checksum, finer] = event
  const body = readBody(log, stored)
  if (checksum !== null && checksum !== eventChecksum(row, id, { instant, finer }, body))
    throw new DamagedRowError(row)
  try {
    return messageTexts(JSON.parse(body.toString('utf8')))
  } catch {
    return []
  }
}
