import { Problem } from '@slipway/protocol'
import type { EventLog, Records } from '@slipway/storage'
import { makeZip } from 'client-zip'

const batchEvents = 500
const batchBytes = 256 * 1024
const sendBytes = 64 * 1024

interface Entry {
  readonly name: string
  readonly input: Buffer
  readonly lastModified: Date
}

/**
 * Conversations as zip files (wire 3.10): `meta.json`, and `event_{number of six digits}_{id}.json` for each event. It is read
 * from the log as it is sent, so there is no limit for the number of events, and a slow reader costs no memory. One at a time
 * for a conversation: another one is a Problem `busy`.
 */
export class Downloads {
  readonly #parts: { readonly log: EventLog; readonly records: Pick<Records, 'get'> }
  readonly #underWay = new Set<string>()

  constructor(parts: { readonly log: EventLog; readonly records: Pick<Records, 'get'> }) {
    this.#parts = parts
  }

  /** Nothing is done before the first piece is asked for; leaving early lets go of everything. */
  async *zip(conversation: string, meta: unknown): AsyncGenerator<Buffer> {
    if (this.#underWay.has(conversation))
      throw new Problem('busy', 'This conversation is being downloaded already')
    this.#underWay.add(conversation)
    const reader = makeZip(this.#entries(conversation, meta), { buffersAreUTF8: true }).getReader()
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
      this.#underWay.delete(conversation)
    }
  }

  async *#entries(conversation: string, meta: unknown): AsyncGenerator<Entry> {
    const [record] = await this.#parts.records.get([conversation])
    yield {
      name: 'meta.json',
      input: Buffer.from(`${JSON.stringify(meta, null, 2)}\n`),
      lastModified: inRange(record?.updated_at ?? Date.now() * 1000),
    }
    // What comes while it is read is not in it: it ends.
    const head = record?.head ?? 0
    for (let position = 0; position < head; ) {
      const limit = Math.min(batchEvents, head - position)
      const events = await this.#parts.log.read(conversation, position, limit, batchBytes)
      for (const { position: at, id, bytes, instant } of events) {
        const number = String(at).padStart(6, '0')
        yield { name: `event_${number}_${fileName(id)}.json`, input: bytes, lastModified: inRange(instant) }
      }
      const last = events.at(-1)
      // It was deleted: what is there is not the whole of it, so the reader is cut off.
      if (last === undefined) throw new Error('the conversation was deleted while it was downloaded')
      position = last.position
    }
  }
}

/** Ids are any text: what is no plain letter, digit, dot, hyphen or underscore is a hyphen in a file name. */
function fileName(id: string): string {
  return id.replace(/[^\w.-]/g, '-').slice(0, 100)
}

/** A zip has years from 1980 to 2107. */
function inRange(instant: number): Date {
  return new Date(Math.min(Math.max(instant / 1000, 347_155_200_000), 4_354_819_200_000))
}
