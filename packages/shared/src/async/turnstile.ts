/**
 * Lets that many pass in a turn of the event loop, in order of the calls: work that comes together, as the
 * replies of a model to many runs, does not hold the loop in one piece, and others are answered in between.
 */
export class Turnstile {
  readonly #maxPerTurn: number
  readonly #waiting: (() => void)[] = []
  #passed = 0
  #isTurning = false

  /** @param maxPerTurn at least 1. */
  constructor(maxPerTurn: number) {
    this.#maxPerTurn = maxPerTurn
  }

  /** Resolves in this turn, or in the first one that has room. */
  async pass(): Promise<void> {
    this.#turn()
    if (this.#passed < this.#maxPerTurn) this.#passed += 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  /** In the next turn those who wait come first. */
  #turn(): void {
    if (this.#isTurning) return
    this.#isTurning = true
    setImmediate(() => {
      this.#isTurning = false
      const next = this.#waiting.splice(0, this.#maxPerTurn)
      this.#passed = next.length
      if (next.length > 0) this.#turn()
      for (const resolve of next) resolve()
    })
  }
}
