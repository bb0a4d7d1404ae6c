/** Wakes those who wait for something to look at. A ring carries nothing: read to know. */
export class Bell {
  readonly #waiting = new Set<() => void>()
  #rings = 0

  /** How often it rang. Take it before reading, and wait with it after. */
  get rings(): number {
    return this.#rings
  }

  ring(): void {
    this.#rings += 1
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }

  /** Resolves when it has rung since `rings` was taken, or the signal aborts. Nothing stays behind on either. */
  async since(rings: number, signal: AbortSignal): Promise<void> {
    if (rings !== this.#rings || signal.aborted) return
    await new Promise<void>((resolve) => {
      const wake = () => {
        signal.removeEventListener('abort', wake)
        this.#waiting.delete(wake)
        resolve()
      }
      this.#waiting.add(wake)
      signal.addEventListener('abort', wake)
    })
  }
}
