const multiplier = 0x01000193
const tableSize = 1 << 16

/**
 * Finds which of many byte strings begin where: a rolling hash of `window` bytes decides at nearly all
 * positions that none does, so that the time hardly depends on their number. Those shorter than `window` are
 * left out.
 */
export class NeedleIndex {
  readonly #window: number
  /** By the hash of their beginning, the longest first. */
  readonly #buckets = new Map<number, Uint8Array[]>()
  readonly #table = new Uint8Array(tableSize)
  /** Factor of the byte that leaves the window. */
  readonly #leaving: number

  constructor(needles: readonly Uint8Array[], window: number) {
    this.#window = window
    this.#leaving = Array.from({ length: window - 1 }).reduce<number>(
      (power) => Math.imul(power, multiplier),
      1,
    )
    for (const needle of needles.toSorted((a, b) => b.length - a.length)) {
      if (needle.length < window) continue
      const hash = hashOf(needle, 0, window)
      this.#table[hash & (tableSize - 1)] = 1
      const bucket = this.#buckets.get(hash)
      if (bucket === undefined) this.#buckets.set(hash, [needle])
      else bucket.push(needle)
    }
  }

  /** The first position from `from` on at which a needle begins, and the length of the longest one there. */
  find(bytes: Uint8Array, from: number): { readonly at: number; readonly length: number } | undefined {
    const window = this.#window
    const leaving = this.#leaving
    const table = this.#table
    const last = bytes.length - window
    if (from > last) return undefined
    let hash = hashOf(bytes, from, window)
    for (let at = from; ; at++) {
      if (table[hash & (tableSize - 1)] === 1) {
        const needle = this.#buckets.get(hash)?.find((one) => startsAt(bytes, at, one))
        if (needle !== undefined) return { at, length: needle.length }
      }
      if (at === last) return undefined
      const rest = (hash - Math.imul(bytes[at] ?? 0, leaving)) | 0
      hash = (Math.imul(rest, multiplier) + (bytes[at + window] ?? 0)) | 0
    }
  }
}

function hashOf(bytes: Uint8Array, from: number, length: number): number {
  let hash = 0
  for (let at = from; at < from + length; at++) hash = (Math.imul(hash, multiplier) + (bytes[at] ?? 0)) | 0
  return hash
}

function startsAt(bytes: Uint8Array, at: number, needle: Uint8Array): boolean {
  if (at + needle.length > bytes.length) return false
  for (let index = needle.length - 1; index >= 0; index--)
    if (bytes[at + index] !== needle[index]) return false
  return true
}

/** Texts of which others may be the beginning. */
export class Prefixes {
  readonly #sorted: readonly string[]
  /** Characters of the longest text. */
  readonly longest: number

  constructor(texts: readonly string[]) {
    this.#sorted = texts.toSorted()
    this.longest = Math.max(0, ...texts.map(({ length }) => length))
  }

  /** The first place from which everything to the end of a text is the beginning of a longer one of these. */
  findOpen(text: string): number | undefined {
    for (let at = Math.max(0, text.length - this.longest); at < text.length; at++)
      if (this.#hasLonger(text.slice(at))) return at
    return undefined
  }

  #hasLonger(start: string): boolean {
    let [low, high] = [0, this.#sorted.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#sorted[middle] ?? '') <= start) low = middle + 1
      else high = middle
    }
    return this.#sorted[low]?.startsWith(start) ?? false
  }
}
