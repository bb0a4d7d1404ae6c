import type { Hints } from '@slipway/agent'
import { WaitingHints } from './transient-buffer.ts'

/** What a reader of server-sent events is told besides the log. */
export class SentHints implements Disposable {
  readonly #ring: () => void
  readonly #waiting: WaitingHints
  #end: (() => void) | undefined

  /** `ring` is called when there is something new to be taken; `now` answers microseconds. */
  constructor(ring: () => void, now: () => number) {
    this.#ring = ring
    this.#waiting = new WaitingHints(now)
  }

  listen(hints: Pick<Hints, 'listen'>): void {
    this.#end = hints.listen((hint, position) => {
      if (hint.kind === 'rest') return
      this.#waiting.add(hint, position)
      this.#ring()
    })
  }

  /** What may be sent now to a reader that has everything up to `position`, as server-sent events. */
  *taken(position: number): Generator<Buffer> {
    for (;;) {
      const event = this.#waiting.next(position)
      if (event === undefined) return
      yield Buffer.from(`event: hint\ndata: ${JSON.stringify(event)}\n\n`)
    }
  }

  [Symbol.dispose](): void {
    this.#end?.()
  }
}
