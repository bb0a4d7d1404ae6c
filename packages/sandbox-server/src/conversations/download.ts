import { Problem } from '@slipway/protocol'
import { type EventLog, type Records, zippedConversation } from '@slipway/storage'

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
    const { log, records } = this.#parts
    try {
      const [record] = await records.get([conversation])
      yield* zippedConversation({
        log,
        id: conversation,
        head: record?.head ?? 0,
        meta,
        updatedAt: record?.updated_at ?? Date.now() * 1000,
        path: ({ position, name }) => `event_${String(position).padStart(6, '0')}_${name}`,
      })
    } finally {
      this.#underWay.delete(conversation)
    }
  }
}
