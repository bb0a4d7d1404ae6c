import { formatBytes } from '@slipway/shared/text'

const firstAfterMs = 500
const isTerminal = () => process.stderr.isTTY === true

/** Progress on standard error, shown after half a second. Dispose it at the end. */
export class Progress {
  readonly #verb: string
  readonly #totalBytes: number | undefined
  readonly #startedAt = Date.now()
  #printedAt = 0
  #bytes = 0
  #events = 0

  /** `totalBytes`: the expected end, if known. */
  constructor(verb: string, totalBytes?: number) {
    this.#verb = verb
    this.#totalBytes = totalBytes
  }

  /** Adds what has been done since the last call. */
  add(bytes: number, events: number): void {
    this.#bytes += bytes
    this.#events += events
    const now = Date.now()
    const intervalMs = isTerminal() ? 100 : 5000
    if (now - this.#startedAt < firstAfterMs || now - this.#printedAt < intervalMs) return
    this.#printedAt = now
    process.stderr.write(isTerminal() ? `\r\u001b[2K${this.#text(now)}` : `${this.#text(now)}\n`)
  }

  [Symbol.dispose](): void {
    if (this.#printedAt > 0 && isTerminal()) process.stderr.write('\r\u001b[2K')
  }

  #text(now: number): string {
    const total = this.#totalBytes === undefined ? '' : ` of ${formatBytes(this.#totalBytes)}`
    const seconds = (now - this.#startedAt) / 1000
    const events =
      this.#events === 0 ? '' : `, ${this.#events} events (${Math.round(this.#events / seconds)}/s)`
    return `${this.#verb} ${formatBytes(this.#bytes)}${total}${events}`
  }
}
