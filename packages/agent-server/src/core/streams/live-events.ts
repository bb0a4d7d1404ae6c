/**
 * Live events for many readers of one conversation.
 *
 * Problem: up to 2,000 sockets and streams follow a conversation. A read of the log for each of them and each
 * event is too much, and a slow reader must neither delay the others nor fill a queue.
 *
 * Idea: a conversation has one tail of the log, the feed, for all readers that have everything. A reader that
 * is behind, or needs time, leaves the feed, reads the log on its own, and joins again when it has caught up.
 * So the log is the queue.
 *
 * Invariants:
 * - A reader gets every event once and in order: its position moves before it is delivered to, and a batch is
 *   cut to what lies above its position (`#deliver`).
 * - Nothing is awaited between the comparison with `feed.position` and `join`, and `join` registers at once:
 *   no batch falls between the two.
 * - A delivery that returns a promise takes its reader out of the feed until it has resolved. The feed waits
 *   for no one, and keeps nothing for anyone.
 * - All readers get the same batch objects, which no one may change.
 * - A delivery that throws rejects the reader's own `follow` and no other.
 * - A feed ends with its last user, and an ended feed removes itself only (`#onEnd`): a new one may have its
 *   place already.
 *
 * If you change this: events twice or missing, at the seam between history and live events alone, which shows
 * rarely. The property test in `live-events.slow.test.ts` joins and leaves at any moment.
 *
 * Decision page: docs/decisions/0032-session-socket.md
 */

import type { EventLog, StoredEvent } from '@slipway/storage'

type Batch = readonly StoredEvent[]
/** Delivers a batch. After a promise the next batch comes only when that has resolved. */
export type Deliver = (batch: Batch) => Promise<unknown> | undefined

/** Followers of conversations; those that have everything share one tail of the log. */
export class LiveEvents {
  readonly #log: Pick<EventLog, 'tail'>
  readonly #feeds = new Map<string, Feed>()

  constructor(log: Pick<EventLog, 'tail'>) {
    this.#log = log
  }

  /**
   * Delivers every event after a position once, in order. Resolves when the conversation is deleted or
   * `signal` aborts; rejects when reading or a delivery fails. `head` is a recent end of the log.
   */
  async follow(
    conversation: string,
    { after, head, signal }: { readonly after: number; readonly head: number; readonly signal: AbortSignal },
    deliver: Deliver,
  ): Promise<void> {
    const feed = this.#feeds.get(conversation) ?? this.#open(conversation, Math.max(after, head))
    feed.users += 1
    try {
      for (let position: number | undefined = after; position !== undefined && !signal.aborted; ) {
        const isBehind: boolean = position < feed.position
        position = isBehind
          ? await this.#catchUp(conversation, feed, position, { deliver, signal })
          : await feed.join(position, { deliver, signal })
      }
    } finally {
      feed.users -= 1
      if (feed.users === 0) feed.stop()
    }
  }

  #open(conversation: string, position: number): Feed {
    const feed = new Feed(position, () => {
      if (this.#feeds.get(conversation) === feed) this.#feeds.delete(conversation)
    })
    this.#feeds.set(conversation, feed)
    void feed.run(this.#log.tail(conversation, position, feed.signal))
    return feed
  }

  /** Resolves with the position that was reached, with undefined when the conversation was deleted. */
  async #catchUp(
    conversation: string,
    feed: Feed,
    after: number,
    { deliver, signal }: { readonly deliver: Deliver; readonly signal: AbortSignal },
  ): Promise<number | undefined> {
    for await (const batch of this.#log.tail(conversation, after, signal)) {
      await deliver(batch)
      const position = batch.at(-1)?.position ?? after
      if (position >= feed.position || signal.aborted) return position
    }
    return undefined
  }
}

interface Follower {
  position: number
  readonly deliver: Deliver
  leave(result: Promise<number | undefined>): void
}

/** The shared tail of a conversation. */
class Feed {
  users = 0
  position: number
  readonly #onEnd: () => void
  readonly #stop = new AbortController()
  readonly #followers = new Set<Follower>()
  #end: Promise<undefined> | undefined

  constructor(position: number, onEnd: () => void) {
    this.position = position
    this.#onEnd = onEnd
  }

  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Delivers a tail until it ends. */
  async run(tail: AsyncIterable<Batch>): Promise<void> {
    try {
      for await (const batch of tail) this.#deliver(batch)
      this.#end = Promise.resolve(undefined)
    } catch (error) {
      this.#end = Promise.reject(error)
      this.#end.catch(() => {})
    }
    this.#onEnd()
    for (const { leave } of this.#followers) leave(this.#end)
  }

  stop(): void {
    this.#stop.abort()
    this.#onEnd()
  }

  /**
   * Delivers what comes after a position until the follower needs time. Resolves with its position then,
   * and with undefined at the end of the tail or when `signal` aborts.
   */
  join(
    position: number,
    { deliver, signal }: { readonly deliver: Deliver; readonly signal: AbortSignal },
  ): Promise<number | undefined> {
    if (this.#end !== undefined) return this.#end
    return new Promise((resolve) => {
      const abort = () => follower.leave(Promise.resolve(undefined))
      const follower: Follower = {
        position,
        deliver,
        leave: (result) => {
          this.#followers.delete(follower)
          signal.removeEventListener('abort', abort)
          resolve(result)
        },
      }
      signal.addEventListener('abort', abort)
      this.#followers.add(follower)
    })
  }

  #deliver(batch: Batch): void {
    const first = batch[0]?.position ?? 0
    this.position = batch.at(-1)?.position ?? this.position
    for (const follower of this.#followers) {
      if (follower.position >= this.position) continue
      const rest =
        follower.position < first ? batch : batch.filter(({ position }) => position > follower.position)
      follower.position = this.position
      try {
        const sending = follower.deliver(rest)
        if (sending !== undefined) follower.leave(sending.then(() => follower.position))
      } catch (error) {
        follower.leave(Promise.reject(error))
      }
    }
  }
}
