import { Problem } from '@slipway/protocol'
import { type ConversationRecords, type EventLog, zipConversation } from '@slipway/storage'

/**
 * Conversations as zip files (wire 3.10): `meta.json`, and `event_{number of six digits}_{id}.json` for each event. It is read
 * from the log as it is sent, so there is no limit for the number of events, and a slow reader costs no memory. One at a time
 * for a conversation: another one is a Problem `busy`.
 */
export class ConversationDownloads {
  readonly #deps: { readonly log: EventLog; readonly records: Pick<ConversationRecords, 'get'> }
  readonly #active = new Set<string>()

  constructor(deps: { readonly log: EventLog; readonly records: Pick<ConversationRecords, 'get'> }) {
    this.#deps = deps
  }

  /** Nothing is done before the first piece is asked for; leaving early lets go of everything. */
  async *zip(conversation: string, meta: unknown): AsyncGenerator<Buffer> {
    if (this.#active.has(conversation))
      throw new Problem('busy', 'This conversation is being downloaded already')
    this.#active.add(conversation)
    const { log, records } = this.#deps
    try {
      const [record] = await records.get([conversation])
      yield* zipConversation({
        log,
        id: conversation,
        head: record?.head ?? 0,
        meta,
        updatedAt: record?.updated_at ?? Date.now() * 1000,
        entryPath: ({ position, name }) => `event_${String(position).padStart(6, '0')}_${name}`,
      })
    } finally {
      this.#active.delete(conversation)
    }
  }
}
