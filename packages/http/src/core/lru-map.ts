const maxEntries = 1_000
const maxKeyLength = 2_048

/** What belongs to the newest keys: at least the last thousand, at most twice as many. Long keys are not kept. */
export class LruMap<V> {
  #recent = new Map<string, V>()
  #previous = new Map<string, V>()

  get(key: string): V | undefined {
    const recent = this.#recent.get(key)
    if (recent !== undefined) return recent
    const previous = this.#previous.get(key)
    if (previous !== undefined) this.set(key, previous)
    return previous
  }

  set(key: string, value: V): void {
    if (key.length > maxKeyLength) return
    if (this.#recent.size >= maxEntries) {
      this.#previous = this.#recent
      this.#recent = new Map()
    }
    this.#recent.set(key, value)
  }
}
