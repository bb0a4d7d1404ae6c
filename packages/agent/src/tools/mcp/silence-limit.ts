import type { Progress } from '@modelcontextprotocol/client'
import { firstChars } from '@slipway/shared/text'

/** However much progress a call tells of, it ends after its limit of silence as many times. */
export const maxSilences = 12

/** Aborts a call after a time without an answer or progress. */
export class SilenceLimit implements Disposable {
  readonly #silenceMs: number
  readonly #controller = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly #endMs: number
  #last: Progress | undefined

  /** @param isPaused: the call waits for something else than its server. */
  constructor(silenceMs: number, isPaused: () => boolean = () => false) {
    this.#silenceMs = silenceMs
    this.#endMs = performance.now() + silenceMs * maxSilences
    this.#timer = setTimeout(() => {
      if (isPaused()) this.#timer.refresh()
      else this.#controller.abort()
    }, silenceMs).unref()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  addProgress(progress: Progress): void {
    this.#last = progress
    if (performance.now() + this.#silenceMs <= this.#endMs) this.#timer.refresh()
  }

  /** The error that the model gets. */
  get failure(): string {
    const seconds = this.#silenceMs / 1000
    if (this.#last === undefined) return `The tool gave no answer within ${seconds} seconds.`
    const { progress, total, message } = this.#last
    const amount = total === undefined ? progress : `${progress} of ${total}`
    const words = message === undefined ? '' : `, ${firstChars(message, 500)}`
    return `The tool gave no answer, and no progress for ${seconds} seconds. Its last progress: ${amount}${words}.`
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }
}
