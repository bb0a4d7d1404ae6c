import { Problem } from '@slipway/protocol'
import { type Storage, zipConversation } from '@slipway/storage'

/**
 * Zip files (wire 3.10), read from the log while they are sent. A Problem `busy` for a concurrent download.
 */
export class ConversationDownloads {
  readonly #storage: Pick<Storage, 'log' | 'conversations'>
  readonly #active = new Set<string>()

  constructor(storage: Pick<Storage, 'log' | 'conversations'>) {
    this.#storage = storage
  }

  /** Starts with the first chunk; ending the iteration early frees the conversation. */
  async *zip(conversation: string, meta: unknown): AsyncGenerator<Buffer> {
    if (this.#active.has(conversation))
      throw new Problem('busy', 'This conversation is being downloaded already')
    this.#active.add(conversation)
    const { log, conversations } = this.#storage
    try {
      const [record] = await conversations.get([conversation])
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
