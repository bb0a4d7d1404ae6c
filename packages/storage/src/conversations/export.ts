import { pipeline, type Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createGzip } from 'node:zlib'
import type { EventLog, StoredEvent } from '../event-log/event-log.ts'
import type { ConversationRecord } from './conversation-records.ts'

const lineEnd = Buffer.from('\n')
/** Bounds of what one turn of the event loop reads. */
const batchEvents = 200
const batchBytes = 128 * 1024
/** Resolves when the batch that was begun last has had its turn. */
let lastTurn: Promise<unknown> = Promise.resolve()

/** Resolves in a turn of the event loop in which no other export begins a batch, in order of the calls. */
async function ownTurn(): Promise<void> {
  const before = lastTurn
  lastTurn = before.then(() => nextTurn())
  await before
}

/**
 * The log up to the record's head as JSON lines: the stored bytes of each event in order of position. With
 * `meta` a first line without `kind` that an import understands.
 */
export async function* exportEvents(
  log: EventLog,
  record: ConversationRecord,
  options: { readonly meta: boolean },
): AsyncGenerator<Buffer> {
  if (options.meta) {
    const { id, title, tags } = record
    yield Buffer.from(
      `${JSON.stringify({ conversation_id: id, ...(title === null ? {} : { title }), tags })}\n`,
    )
  }
  for await (const events of readBatches(log, record)) {
    const sizeBytes = events.reduce((sum, event) => sum + event.bytes.length, 0)
    if (sizeBytes < 2 * batchBytes) yield Buffer.concat(events.flatMap((event) => [event.bytes, lineEnd]))
    else for (const event of events) yield* [event.bytes, lineEnd]
  }
}

/** The events up to the record's head, in order of position, in batches of bounded size. */
export async function* readBatches(
  log: Pick<EventLog, 'read'>,
  record: Pick<ConversationRecord, 'id' | 'head'>,
): AsyncGenerator<readonly StoredEvent[]> {
  for (let position = 0; position < record.head; ) {
    // Exports of connections that take everything at once would block the event loop, each of them longer.
    await ownTurn()
    const events = await log.read(
      record.id,
      position,
      Math.min(batchEvents, record.head - position),
      batchBytes,
    )
    const last = events.at(-1)
    if (last === undefined) return
    position = last.position
    yield events
  }
}

/** The same bytes, compressed. */
export function gzipStream(chunks: AsyncIterable<Buffer>): Readable {
  // The reader of the result sees the errors.
  return pipeline(chunks, createGzip({ level: 6 }), () => {})
}
