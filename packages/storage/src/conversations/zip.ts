import type { EventLog } from '../event-log/event-log.ts'

const batchEvents = 500
const batchBytes = 256 * 1024
const sendBytes = 64 * 1024

interface Entry {
  readonly name: string
  readonly input: Buffer
  readonly lastModified: Date
}

export interface ZipOptions {
  readonly log: EventLog
  readonly id: string
  /** The end of what is in it; what comes while it is read is not. */
  readonly head: number
  /** What is known of the conversation, as JSON: the file `meta.json`. */
  readonly meta: unknown
  /** Of the conversation, in microseconds. */
  readonly updatedAt: number
  /** The file of an event, without its ending; `name` is its id as far as file names allow. */
  entryPath(event: { readonly position: number; readonly name: string }): string
  /** What is written of an event; its stored bytes unless given. */
  transformEvent?(bytes: Buffer): Buffer
}

/**
 * A conversation as a zip file: `meta.json`, and a JSON file for each event. It is read from the log as it is sent, so it may be of any length and
 * a slow reader costs no memory. Nothing is done before the first piece is asked for; leaving early lets go of everything. Fails when the
 * conversation is deleted meanwhile: what is there is then not the whole of it.
 */
export async function* zipConversation(options: ZipOptions): AsyncGenerator<Buffer> {
  const { makeZip } = await import('client-zip')
  const reader = makeZip(entries(options), { buffersAreUTF8: true }).getReader()
  try {
    for (let pieces: Uint8Array[] = [], sizeBytes = 0; ; ) {
      const { value, done } = await reader.read()
      if (value !== undefined) {
        pieces.push(value)
        sizeBytes += value.length
      }
      // Most pieces are a few bytes long.
      if (!done && sizeBytes < sendBytes) continue
      yield Buffer.concat(pieces)
      if (done) return
      pieces = []
      sizeBytes = 0
    }
  } finally {
    // It answers with the reason that it is given, as an error.
    await reader.cancel().catch(() => undefined)
  }
}

async function* entries(options: ZipOptions): AsyncGenerator<Entry> {
  const { log, id, head, meta, updatedAt, entryPath, transformEvent = (bytes) => bytes } = options
  const text = `${JSON.stringify(meta, null, 2)}\n`
  yield { name: 'meta.json', input: Buffer.from(text), lastModified: toZipDate(updatedAt) }
  for (let position = 0; position < head; ) {
    const events = await log.read(id, position, Math.min(batchEvents, head - position), batchBytes)
    for (const event of events) {
      const name = `${entryPath({ position: event.position, name: fileName(event.id) })}.json`
      yield { name, input: transformEvent(event.bytes), lastModified: toZipDate(event.instant) }
    }
    const last = events.at(-1)
    if (last === undefined) throw new Error('the conversation was deleted while it was downloaded')
    position = last.position
  }
}

/** Ids are any text: what is no plain letter, digit, dot, hyphen or underscore is a hyphen in a file name. */
function fileName(id: string): string {
  return id.replace(/[^\w.-]/g, '-').slice(0, 100)
}

/** A zip has years from 1980 to 2107. */
function toZipDate(instant: number): Date {
  return new Date(Math.min(Math.max(instant / 1000, 347_155_200_000), 4_354_819_200_000))
}
