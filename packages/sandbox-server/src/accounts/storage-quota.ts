import { Problem, unlimited } from '@slipway/protocol'
import { createCounter } from '@slipway/shared/metrics'
import type { Storage } from '@slipway/storage'
import type { AppConversationRows, UserRows } from '@slipway/storage/control-plane'

/** Room comes when somebody deletes something. */
const removalSeconds = 60
const mebibyte = 1024 * 1024

interface StorageQuotaDeps {
  readonly users: Pick<UserRows, 'getLimits'>
  readonly conversations: Pick<AppConversationRows, 'listIds' | 'countAll'>
  readonly records: Pick<Storage['conversations'], 'sumBytes'>
  /** Of the server; 0: unlimited. */
  readonly maxConversations: number
  readonly maxStoredMb: number
  /** Other servers store events too: bytes are counted at each use. */
  readonly isShared?: boolean
}

interface StoredBytes {
  bytes: number
}

/** Limits what each user stores: conversations, and bytes of their events. Null owners have no limit. */
export class StorageQuota {
  readonly #deps: StorageQuotaDeps
  /** By owner, since the first use. Bytes that are being stored are included. */
  readonly #stored = new Map<string, Promise<StoredBytes>>()
  readonly refusals = createCounter(
    'slipway_quota_refusals_total',
    'Starts of conversations and batches of events that a limit of what users store refused, by quota.',
    'quota',
  )

  constructor(deps: StorageQuotaDeps) {
    this.#deps = deps
  }

  /** The limits that apply and what is used of them; a limit is undefined without one. */
  async status(owner: string | null) {
    const { maxConversations, maxBytes } = await this.#getLimits(owner)
    return {
      maxConversations,
      maxBytes,
      conversations: owner === null ? 0 : await this.#deps.conversations.countAll(owner),
      bytes: owner === null ? 0 : (await this.#load(owner)).bytes,
    }
  }

  /** The most conversations of an owner; undefined without a limit. Adding a row checks it again. */
  async maxConversations(owner: string | null): Promise<number | undefined> {
    return (await this.#getLimits(owner)).maxConversations
  }

  /** Refuses another conversation with the Problems `too_many` and `storage_full`. */
  async requireRoom(owner: string | null): Promise<void> {
    const { maxConversations, maxBytes, conversations, bytes } = await this.status(owner)
    if (maxConversations !== undefined && conversations >= maxConversations) {
      this.refusals.inc({ quota: 'conversations' })
      const problem = new Problem(
        'too_many',
        `The limit of ${maxConversations} conversations is reached: delete some first.`,
        undefined,
        { code: 'conversation_limit_reached', limit: maxConversations, used: conversations },
      )
      problem.retryAfterSeconds = removalSeconds
      throw problem
    }
    if (maxBytes !== undefined && bytes >= maxBytes) throw this.#fullProblem(maxBytes, bytes)
  }

  /**
   * Runs `store`, which appends events of an owner's conversation, if there is room for all of their bytes. A
   * Problem `storage_full` otherwise.
   */
  async store<T>(
    { id, owner }: { readonly id: string; readonly owner: string | null },
    bytes: number,
    store: () => Promise<T>,
  ): Promise<T> {
    if (owner === null) return await store()
    const { records } = this.#deps
    const { maxBytes } = await this.#getLimits(owner)
    const stored = await this.#load(owner)
    if (maxBytes !== undefined && stored.bytes + bytes > maxBytes)
      throw this.#fullProblem(maxBytes, stored.bytes)
    stored.bytes += bytes
    const before = await records.sumBytes([id])
    try {
      return await store()
    } finally {
      // Events that were stored before take nothing.
      stored.bytes += (await records.sumBytes([id])) - before - bytes
    }
  }

  /** Something of an owner was deleted: what is left is counted at the next use. */
  forget(owner: string | null): void {
    if (owner !== null) this.#stored.delete(owner)
  }

  async #getLimits(owner: string | null) {
    if (owner === null) return { maxConversations: undefined, maxBytes: undefined }
    const limits = await this.#deps.users.getLimits(owner)
    const resolve = (own: number | null, server: number) => {
      const limit = own ?? (server === 0 ? unlimited : server)
      return limit === unlimited ? undefined : limit
    }
    const maxStoredMb = resolve(limits.max_stored_mb, this.#deps.maxStoredMb)
    return {
      maxConversations: resolve(limits.max_conversations, this.#deps.maxConversations),
      maxBytes: maxStoredMb === undefined ? undefined : maxStoredMb * mebibyte,
    }
  }

  #load(owner: string): Promise<StoredBytes> {
    const known = this.#stored.get(owner)
    if (known !== undefined) return known
    const loading = this.#sum(owner)
    if (this.#deps.isShared === true) return loading
    this.#stored.set(owner, loading)
    loading.catch(() => this.#stored.delete(owner))
    return loading
  }

  async #sum(owner: string): Promise<StoredBytes> {
    const { conversations, records } = this.#deps
    return { bytes: await records.sumBytes(await conversations.listIds(owner)) }
  }

  #fullProblem(limit: number, used: number): Problem {
    this.refusals.inc({ quota: 'stored_bytes' })
    return new Problem(
      'storage_full',
      `The limit of ${limit / mebibyte} MiB of events is reached: delete conversations first.`,
      undefined,
      { code: 'stored_bytes_limit_reached', limit, used },
    )
  }
}
