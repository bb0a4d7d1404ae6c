/** Pseudo-random numbers: the same logs and the same pages for the same seed. */
export class SeededRandom {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 up to 1, exclusive. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let x = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 4_294_967_296
  }

  /** An integer from 0 up to `below`, exclusive. */
  below(below: number): number {
    return Math.floor(this.next() * below)
  }

  hex(digits: number): string {
    let text = ''
    while (text.length < digits) text += this.below(0x1_0000_0000).toString(16).padStart(8, '0')
    return text.slice(0, digits)
  }

  uuid(): string {
    const hex = this.hex(32)
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`
  }
}
