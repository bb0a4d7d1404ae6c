import type { EventLog } from '@slipway/storage'

const batchEvents = 500
const batchBytes = 256 * 1024
const sendBytes = 64 * 1024
const stars = '**********'

interface Entry {
  readonly name: string
  readonly input: Buffer
  readonly lastModified: Date
}

export interface TrajectoryOptions {
  readonly log: EventLog
  readonly id: string
  /** The end of what is in it; what comes while it is read is not. */
  readonly head: number
  /** What is known of the conversation, as JSON. */
  readonly meta: unknown
  readonly updatedAt: number
}

/**
 * A conversation as a zip file: `meta.json`, and `events/event-<index>-<id>.json` for each event, where the index begins with 0 and has
 * five digits or more. It is read from the log as it is sent, so a slow reader costs no memory. Secrets of models and sealed texts are
 * stars in it; events without such are the stored bytes. Nothing is done before the first piece is asked for.
 */
export async function* trajectory(options: TrajectoryOptions): AsyncGenerator<Buffer> {
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

async function* entries({ log, id, head, meta, updatedAt }: TrajectoryOptions): AsyncGenerator<Entry> {
  const text = `${JSON.stringify(masked(meta), null, 2)}\n`
  yield { name: 'meta.json', input: Buffer.from(text), lastModified: inRange(updatedAt) }
  for (let position = 0; position < head; ) {
    const events = await log.read(id, position, Math.min(batchEvents, head - position), batchBytes)
    for (const event of events) {
      const name = `events/event-${String(event.position - 1).padStart(5, '0')}-${fileName(event.id)}.json`
      yield { name, input: maskedEvent(event.bytes), lastModified: inRange(event.instant) }
    }
    const last = events.at(-1)
    // It was deleted: what is there is not the whole of it, so the reader is cut off.
    if (last === undefined) throw new Error('the conversation was deleted while it was downloaded')
    position = last.position
  }
}

/** Tokens that this server or others of its interface have made of a secret. */
const sealed = /slipway-sealed-[\w-]+|gAAAA[\w-]{60,}={0,2}/g
const secretMember = /^(?:api_key|aws_(?:access_key_id|secret_access_key|session_token))$/
/** Cheap, and a little too wide: names may be spelled with escapes. */
const suspicious = /slipway-sealed-|gAAAA|api_key|aws_|\\u00/

/** The stored bytes, unless something has to be hidden in them. */
export function maskedEvent(bytes: Buffer): Buffer {
  const text = bytes.toString()
  if (!suspicious.test(text)) return bytes
  const before: unknown = JSON.parse(text)
  const after = JSON.stringify(masked(before))
  return after === JSON.stringify(before) ? bytes : Buffer.from(after)
}

function masked(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(sealed, stars)
  if (Array.isArray(value)) return value.map(masked)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      secretMember.test(name) && typeof member === 'string' && member !== '' ? stars : masked(member),
    ]),
  )
}

/** Ids are any text: what is no plain letter, digit, dot, hyphen or underscore is a hyphen in a file name. */
function fileName(id: string): string {
  return id.replace(/[^\w.-]/g, '-').slice(0, 100)
}

/** A zip has years from 1980 to 2107. */
function inRange(instant: number): Date {
  return new Date(Math.min(Math.max(instant / 1000, 347_155_200_000), 4_354_819_200_000))
}
