import { firstChars } from '@slipway/shared/text'
import type { EventLog } from '../event-log/event-log.ts'

const batchEvents = 500
const batchBytes = 256 * 1024
const sendBytes = 64 * 1024

interface Entry {
  readonly name: string
  readonly input: Buffer
  readonly lastModified: Date
}

interface ZipOptions {
  readonly log: EventLog
  readonly id: string
  /** Position of the last event in the file. */
  readonly head: number
  /** Content of the file `meta.json`. */
  readonly meta: unknown
  /** Contents of further JSON files, by name. */
  readonly files?: Readonly<Record<string, unknown>>
  /** Folder in which all files are. */
  readonly folder?: string
  /** In microseconds. */
  readonly updatedAt: number
  /** Path of an event's file, without extension; `name` is its id made safe for file names. */
  entryPath(event: { readonly position: number; readonly name: string }): string
  /** Content of an event's file; its stored bytes by default. */
  transformEvent?(bytes: Buffer): Buffer
}

/**
 * A conversation as a zip file: `meta.json`, and a JSON file for each event. Events are read as the file is
 * sent, so memory is bounded. Lazy; `return` releases everything. Throws when the conversation is removed
 * meanwhile, because the file would be incomplete.
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
    // Rejects with the reason of the cancellation.
    await reader.cancel().catch(() => undefined)
  }
}

async function* entries(options: ZipOptions): AsyncGenerator<Entry> {
  const { log, id, head, meta, updatedAt, entryPath, transformEvent = (bytes) => bytes } = options
  const prefix = options.folder === undefined ? '' : `${options.folder}/`
  for (const [name, value] of Object.entries({ 'meta.json': meta, ...options.files })) {
    const input = Buffer.from(`${JSON.stringify(value, null, 2)}\n`)
    yield { name: `${prefix}${name}`, input, lastModified: toZipDate(updatedAt) }
  }
  for (let position = 0; position < head; ) {
    const events = await log.read(id, position, Math.min(batchEvents, head - position), batchBytes)
    for (const event of events) {
      const name = `${prefix}${entryPath({ position: event.position, name: fileName(event.id) })}.json`
      yield { name, input: transformEvent(event.bytes), lastModified: toZipDate(event.instant) }
    }
    const last = events.at(-1)
    if (last === undefined) throw new Error('The conversation was removed during its download')
    position = last.position
  }
}

/** Ids are any text: other characters than ASCII letters, digits, `.`, `-` and `_` become hyphens. */
function fileName(id: string): string {
  return firstChars(id.replace(/[^\w.-]/g, '-'), 100)
}

/** Zip files support the years 1980 to 2107. */
function toZipDate(instant: number): Date {
  return new Date(Math.min(Math.max(instant / 1000, 347_155_200_000), 4_354_819_200_000))
}
