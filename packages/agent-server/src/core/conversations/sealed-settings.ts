import type { ResolvedSettings } from '@slipway/agent'
import type { LogFunction } from '@slipway/protocol'
import type { Cipher, ConversationRecord, Storage } from '@slipway/storage'
import { redactedSkills, toStoredRequest } from './redacted-settings.ts'
import { type ConversationOrigin, parseSettings, parseStoredRequest } from './stored-request.ts'

/** The settings of conversations: in clear without secrets, and sealed as a whole. */
export class SealedSettings {
  readonly #conversations: Pick<Storage['conversations'], 'getSealedState'>
  readonly #cipher: Cipher
  readonly #log: LogFunction

  constructor(
    conversations: Pick<Storage['conversations'], 'getSealedState'>,
    cipher: Cipher,
    log: LogFunction,
  ) {
    this.#conversations = conversations
    this.#cipher = cipher
    this.#log = log
  }

  /** Settings as the record stores them. */
  seal(settings: ResolvedSettings, origin: ConversationOrigin = {}): { request: string; sealed: Buffer } {
    return {
      request: JSON.stringify(toStoredRequest(settings, origin)),
      sealed: this.#cipher.seal(JSON.stringify(settings)),
    }
  }

  /** Secrets in clear where they can be opened; complete when they all can. */
  async read(record: ConversationRecord): Promise<{ settings: ResolvedSettings; isComplete: boolean }> {
    const sealedState = await this.#conversations.getSealedState(record.id)
    const sealed = sealedState?.sealed ?? null
    const text = sealed === null ? undefined : this.#cipher.open(sealed)
    if (text === undefined && sealed !== null) {
      this.#log('warn', 'the secrets of a conversation cannot be opened', { conversation: record.id })
    }
    return text === undefined
      ? { settings: parseStoredRequest(record.request ?? 'null'), isComplete: sealed === null }
      : { settings: parseSettings(text), isComplete: true }
  }

  /** Skills in the settings of a conversation's agent, without secrets; none when they cannot be read. */
  async readSkills(record: ConversationRecord): Promise<readonly unknown[]> {
    return record.request === null ? [] : (redactedSkills((await this.read(record)).settings) ?? [])
  }
}
