import type { TransientUpdates } from '@slipway/agent'
import { TransientBuffer } from './transient-buffer.ts'

/** What a reader of server-sent events is told besides the log. */
export class SseUpdates implements Disposable {
  readonly #notify: () => void
  readonly #buffer: TransientBuffer
  #unsubscribe: (() => void) | undefined

  /** `ring` is called when there is something new to be taken; `now` answers microseconds. */
  constructor(notify: () => void, now: () => number) {
    this.#notify = notify
    this.#buffer = new TransientBuffer(now)
  }

  subscribe(updates: Pick<TransientUpdates, 'subscribe'>): void {
    this.#unsubscribe = updates.subscribe((update, position) => {
      if (update.kind === 'idle') return
      this.#buffer.add(update, position)
      this.#notify()
    })
  }

  /** What may be sent now to a reader that has everything up to `position`, as server-sent events. */
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
