/**
 * Sessions of the Claude Agent SDK as conversations.
 *
 * Idea: a transcript is a conversation whose id follows from its key (project, session, subpath), which its
 * tags say too. An entry is an event of the kind SessionStoreEntry, with the bytes of the entry as its last
 * member. So nothing is stored beside the log: search, export, streams and deletion are those of
 * conversations.
 *
 * Invariants:
 * - An append is one append to the log: all of its entries are stored or none, in their order.
 * - An entry with a uuid has an event id that follows from it, so that a repeated append stores it once.
 *   Entries without one are never compared.
 * - An append names the position after which it writes, and is planned again when another was faster, on this
 *   server or on one that shares the database. So the moments of the events are in order too.
 * - A conversation that only has tags of a session, as a fork does, is in no list: its id is another one.
 *
 * If you change this: sessions that are stored are not found again.
 */

import { randomUUID } from 'node:crypto'
import {
  countJsonMembers,
  formatInstant,
  maxDepth,
  nextInstant,
  Problem,
  type StoredSession,
  sessionEntryKind,
  type TranscriptKey,
  type ValidationIssue,
} from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import type { Clock } from '@slipway/shared/time'
import {
  type ConversationRecord,
  parseEventLine,
  type ReceivedEvent,
  readBatches,
  type Storage,
  type StoredEvent,
} from '@slipway/storage'
import { deriveEventId } from '../../core/conversations/lifecycle/send-message.ts'
import { type Line, LineTooLongError, splitLines } from '../../core/conversations/split-lines.ts'
import type { CallRoute } from '../../core/server/call-route.ts'

/** What an event of ours has before the bytes of its entry. */
const eventHead = new RegExp(
  `^{"id":"[^"\\\\]*","timestamp":"[^"\\\\]*","source":"[^"\\\\]*","kind":"${sessionEntryKind}","entry":`,
)
const maxHeadBytes = 512
/** Of the entries of one append. */
const maxAppendBytes = 64 * 1024 * 1024
/** Of one append: short lines take many times their bytes. */
const maxAppendEntries = 100_000
/** Each failed attempt means that another append succeeded. */
const maxAttempts = 100
const pageSize = 100
const lineEnd = Buffer.from('\n')

interface Entry {
  readonly bytes: Buffer
  readonly uuid: string | undefined
  readonly source: 'user' | 'agent' | 'environment'
}

export class SessionStore {
  readonly #storage: Pick<Storage, 'log' | 'conversations'>
  readonly #call: CallRoute
  readonly #clock: Clock
  readonly #appends = new KeyedMutex()

  constructor(options: {
    readonly storage: Pick<Storage, 'log' | 'conversations'>
    readonly call: CallRoute
    readonly clock: Clock
  }) {
    this.#storage = options.storage
    this.#call = options.call
    this.#clock = options.clock
  }

  /** One entry a line. A bad line is a Problem `invalid` with `loc` `["body", line number, ...place]`. */
  async append(
    key: TranscriptKey,
    stream: AsyncIterable<Buffer>,
  ): Promise<{ readonly conversation_id: string; readonly appended: number }> {
    const entries = await readEntries(stream)
    const id = conversationOf(key)
    const appended =
      entries.length === 0 ? 0 : await this.#appends.runExclusive(id, () => this.#append(id, key, entries))
    return { conversation_id: id, appended }
  }

  /** The lines of the entries; none for a transcript that does not exist. */
  async *load(key: TranscriptKey): AsyncGenerator<Buffer> {
    const { log, conversations } = this.#storage
    const [record] = await conversations.get([conversationOf(key)])
    if (record === undefined) return
    for await (const events of readBatches(log, record)) {
      const lines = events.flatMap((event) => {
        const entry = entryOf(event)
        return entry === undefined ? [] : [entry, lineEnd]
      })
      if (lines.length > 0) yield Buffer.concat(lines)
    }
  }

  /** With its subpaths, unless the key has one itself. A repeated call completes one that was cut. */
  async remove(key: TranscriptKey, signal: AbortSignal): Promise<void> {
    const ids = [conversationOf(key)]
    if (key.subpath === undefined)
      for await (const { id } of this.#find(key)) if (id !== ids[0]) ids.unshift(id)
    for (const conversation_id of ids) {
      const [record] = await this.#storage.conversations.get([conversation_id])
      if (record === undefined) continue
      try {
        await this.#call('deleteConversation', { params: { conversation_id }, signal })
      } catch (error) {
        if (!(error instanceof Problem) || error.code !== 'not_found') throw error
      }
    }
  }

  async listSessions(project_key: string): Promise<StoredSession[]> {
    const sessions: StoredSession[] = []
    for await (const { id, key, updated_at } of this.#find({ project_key })) {
      if (key.subpath !== undefined) continue
      const { session_id } = key
      sessions.push({ session_id, mtime: Math.floor(updated_at / 1000), conversation_id: id })
    }
    return sessions
  }

  async listSubpaths(session: Omit<TranscriptKey, 'subpath'>): Promise<string[]> {
    const subpaths: string[] = []
    for await (const { key } of this.#find(session)) if (key.subpath !== undefined) subpaths.push(key.subpath)
    return subpaths
  }

  async #append(id: string, key: TranscriptKey, entries: readonly Entry[]): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      const created = await this.#storage.conversations.create({ id, tags: tagsOf(key), title: titleOf(key) })
      const events = await this.#newEvents(created.record, entries)
      if (events.length === 0) return 0
      try {
        await this.#storage.log.append(id, events, { after: created.record.head })
        return events.length
      } catch (error) {
        const isOvertaken =
          error instanceof Problem && (error.code === 'conflict' || error.code === 'not_found')
        if (!isOvertaken || attempt === maxAttempts) throw error
      }
    }
  }

  /** The events of the entries that are not stored. */
  async #newEvents({ id, head }: ConversationRecord, entries: readonly Entry[]): Promise<ReceivedEvent[]> {
    const { log } = this.#storage
    const named = entries.map((entry) => ({
      ...entry,
      id: entry.uuid === undefined ? randomUUID() : deriveEventId(id, 'session_entry', entry.uuid),
    }))
    const stored = await log.get(
      id,
      named.map((entry) => entry.id),
    )
    const seen = new Set(stored.flatMap((event) => event?.id ?? []))
    const [last] = head === 0 ? [] : await log.read(id, head - 1, 1)
    const now = this.#clock.now() * 1000
    let instant = last?.instant
    return named.flatMap((entry) => {
      if (seen.has(entry.id)) return []
      seen.add(entry.id)
      instant = nextInstant(now, instant)
      const bytes = eventBytes(entry, entry.id, formatInstant(instant))
      return [{ bytes, id: entry.id, instant, kind: sessionEntryKind, source: entry.source }]
    })
  }

  /** The transcripts with entries of a project, or of one of its sessions, the oldest first. */
  async *#find({
    project_key,
    session_id,
  }: Partial<TranscriptKey>): AsyncGenerator<ConversationRecord & { readonly key: TranscriptKey }> {
    const tags = [
      { name: tagNames.project_key, value: project_key },
      { name: tagNames.session_id, value: session_id },
    ]
    let page_id: string | undefined
    do {
      const page = await this.#storage.conversations.search({
        ...{ limit: pageSize, sort_order: 'CREATED_AT', tags, page_id },
      })
      for (const record of page.items) {
        const key = keyOf(record.tags)
        if (record.head > 0 && record.id === conversationOf(key)) yield { ...record, key }
      }
      page_id = page.next_page_id ?? undefined
    } while (page_id !== undefined)
  }
}

const tagNames = {
  project_key: 'sessionproject',
  session_id: 'sessionid',
  subpath: 'sessionsubpath',
} as const

function tagsOf({ project_key, session_id, subpath }: TranscriptKey): Record<string, string> {
  return {
    [tagNames.project_key]: project_key,
    [tagNames.session_id]: session_id,
    ...(subpath === undefined ? {} : { [tagNames.subpath]: subpath }),
  }
}

function keyOf(tags: Readonly<Record<string, string>>): TranscriptKey {
  return {
    project_key: tags[tagNames.project_key] ?? '',
    session_id: tags[tagNames.session_id] ?? '',
    subpath: tags[tagNames.subpath],
  }
}

function titleOf({ session_id, subpath }: TranscriptKey): string {
  const text = subpath === undefined ? session_id : `${session_id} ${subpath}`
  return [...`Session ${text}`].slice(0, 200).join('')
}

/** The id of the conversation of a transcript: a UUID that depends on its key alone. */
function conversationOf({ project_key, session_id, subpath }: TranscriptKey): string {
  return deriveEventId('', 'session_store', JSON.stringify([project_key, session_id, subpath ?? null]))
}

async function readEntries(stream: AsyncIterable<Buffer>): Promise<Entry[]> {
  const entries: Entry[] = []
  let size = 0
  try {
    for await (const lines of splitLines(stream, maxAppendBytes))
      for (const line of lines) {
        size += line.bytes.length
        if (size > maxAppendBytes) throw tooLong()
        if (entries.length === maxAppendEntries)
          throw new Problem('too_large', `One append has more than ${maxAppendEntries} entries`)
        entries.push(toEntry(line))
      }
  } catch (error) {
    throw error instanceof LineTooLongError ? tooLong() : error
  }
  return entries
}

function tooLong(): Problem {
  return new Problem('too_large', `The entries of one append are longer than ${maxAppendBytes} bytes`)
}

function toEntry({ number, bytes }: Line): Entry {
  const parsed = parseEventLine(bytes)
  if (parsed.kind === 'issues') throw lineProblem(number, parsed.issues)
  const { uuid, type } = parsed.value
  const source = type === 'user' ? 'user' : type === 'assistant' ? 'agent' : 'environment'
  const entry: Entry = { bytes, uuid: typeof uuid === 'string' && uuid !== '' ? uuid : undefined, source }
  // The event is one level deeper than its entry.
  if (countJsonMembers(eventBytes(entry, '', '')) === undefined) {
    const msg = `JSON is nested deeper than ${maxDepth - 1} levels`
    throw lineProblem(number, [{ loc: [], msg, type: 'json_invalid' }])
  }
  return entry
}

function lineProblem(line: number, issues: readonly ValidationIssue[]): Problem {
  const placed = issues.map((issue) => ({ ...issue, loc: ['body', line, ...issue.loc] }))
  return new Problem('invalid', `line ${line} is refused`, placed)
}

function eventBytes({ bytes, source }: Entry, id: string, timestamp: string): Buffer {
  const head = JSON.stringify({ id, timestamp, source, kind: sessionEntryKind }).slice(0, -1)
  return Buffer.concat([Buffer.from(`${head},"entry":`), bytes, Buffer.from('}')])
}

/** The bytes of the entry of an event; undefined for an event of others. */
function entryOf({ bytes }: StoredEvent): Buffer | undefined {
  const [head] = eventHead.exec(bytes.toString('latin1', 0, maxHeadBytes)) ?? []
  return head === undefined ? undefined : bytes.subarray(head.length, -1)
}
