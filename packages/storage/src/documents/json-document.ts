import type { Problem } from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import { changedMembers, isRecord, type MemberChanges } from '@slipway/shared/json'
import { redact, redactedText } from '@slipway/shared/redaction'
import type { Cipher } from '../crypto/cipher.ts'
import type { DocumentStore } from './document-store.ts'

interface JsonDocumentOptions<T> {
  readonly store: DocumentStore
  readonly name: string
  /** Seals the document; without one it is stored as readable JSON. */
  readonly cipher?: Cipher | undefined
  /** The value while nothing is stored. */
  readonly empty: T
  /** Throws for a value of another form. */
  readonly parse: (value: unknown) => T
  /** The value for the audit, without secrets; unless given, by the names of members. */
  readonly show?: ((value: T) => unknown) | undefined
  /** The error for a document that cannot be read, for this reason. */
  readonly unreadable: (reason: UnreadableReason) => Problem
}

export type UnreadableReason = keyof typeof unreadableReasons

/** Why a document cannot be read, as the end of a sentence about it. */
export const unreadableReasons = {
  empty: 'it is empty',
  sealed: 'it is damaged, or was sealed with another key',
  form: 'it is damaged, or was written by a newer version',
}

/**
 * One JSON value per owner, small enough for memory. Callers never modify a value. An unreadable document is
 * never overwritten. A server without users omits the owner.
 */
export class JsonDocument<T> {
  readonly #options: JsonDocumentOptions<T>
  readonly #mutex = new KeyedMutex()
  /** Values by their bytes: the same Buffer is parsed once. */
  readonly #values = new WeakMap<Buffer, { readonly value: T }>()

  constructor(options: JsonDocumentOptions<T>) {
    this.#options = options
  }

  async read(owner = ''): Promise<T> {
    const { store, name, empty } = this.#options
    const bytes = await store.get(owner, name)
    return bytes === undefined ? empty : this.#parse(bytes)
  }

  /**
   * Stores what `transform` returns for the current value and returns it, durable. Updates are serialized; an
   * unchanged value is not written, and an update that throws changes nothing.
   */
  async update(transform: (value: T) => T | Promise<T>, owner = ''): Promise<T> {
    const { store, name, empty } = this.#options
    return await this.#mutex.runExclusive(owner, async () => {
      for (;;) {
        const stored = await store.get(owner, name)
        const before = stored === undefined ? empty : this.#parse(stored)
        const after = await transform(before)
        if (after === before) return after
        const bytes = this.#encode(after)
        let isCurrent = true
        const replace = (old: Buffer | undefined) => {
          // Another server may have changed it.
          isCurrent = stored === undefined ? old === undefined : old?.equals(stored) === true
          return isCurrent ? bytes : old
        }
        await store.update(owner, name, replace, () => this.#describe(before, after))
        if (!isCurrent) continue
        this.#values.set(bytes, { value: after })
        return after
      }
    })
  }

  #describe(before: T, after: T): MemberChanges {
    const { show = (value: T) => redact(value, redactedText) } = this.#options
    const shown = { before: toMembers(show(before)), after: toMembers(show(after)) }
    return changedMembers(toMembers(before), toMembers(after), shown)
  }

  #parse(bytes: Buffer): T {
    const known = this.#values.get(bytes) ?? { value: this.#decode(bytes) }
    this.#values.set(bytes, known)
    return known.value
  }

  #encode(value: T): Buffer {
    const { cipher } = this.#options
    return cipher === undefined
      ? Buffer.from(`${JSON.stringify(value, null, 2)}\n`)
      : cipher.seal(JSON.stringify(value))
  }

  #decode(bytes: Buffer): T {
    const { cipher, parse, unreadable } = this.#options
    if (bytes.length === 0) throw unreadable('empty')
    const text = cipher === undefined ? bytes.toString() : cipher.open(bytes)
    if (text === undefined) throw unreadable('sealed')
    try {
      return parse(JSON.parse(text))
    } catch {
      throw unreadable('form')
    }
  }
}

function toMembers(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : { value }
}
