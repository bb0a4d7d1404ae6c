import type { TransientUpdates } from '@slipway/agent'
import { TransientBuffer } from './transient-buffer.ts'

/** Transient updates for a reader of server-sent events. */
export class SseUpdates implements Disposable {
  readonly #notify: () => void
  readonly #buffer: TransientBuffer
  #unsubscribe: (() => void) | undefined

  /** `notify` is called when there is a new update; `now` answers microseconds. */
  constructor(notify: () => void, now: () => number) {
    this.#notify = notify
    this.#buffer = new TransientBuffer(now)
  }

  /** Without `all` only changes of members that the log does not have. */
  subscribe(updates: Pick<TransientUpdates, 'subscribe'>, { all }: { readonly all: boolean }): void {
    this.#unsubscribe = updates.subscribe((update, position) => {
      if (update.kind === 'idle' || update.kind === 'reply_aborted') return
      if (!(all || update.kind === 'member')) return
      this.#buffer.add(update, position)
      this.#notify()
    })
  }

  /** The updates that a reader with all events up to `position` can get now, as server-sent events. */
  *drain(position: number): Generator<Buffer> {
    for (;;) {
      const event = this.#buffer.takeNext(position)
      if (event === undefined) return
      yield Buffer.from(`event: hint\ndata: ${JSON.stringify(event)}\n\n`)
    }
  }

  [Symbol.dispose](): void {
    this.#unsubscribe?.()
  }
}
