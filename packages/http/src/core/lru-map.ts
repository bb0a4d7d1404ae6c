const maxEntries = 1_000
const maxKeyLength = 2_048

/** What belongs to the newest keys: at least the last thousand, at most twice as many. Long keys are not kept. */
export class Newest<V> {
  #newer = new Map<string, V>()
  #older = new Map<string, V>()

  get(key: string): V | undefined {
    const newer = this.#newer.get(key)
    if (newer !== undefined) return newer
    const older = this.#older.get(key)
    if (older !== undefined) this.set(key, older)
    return older
  }

  set(key: string, value: V): void {
    if (key.length > maxKeyLength) return
    if (this.#newer.size >= maxEntries) {
      this.#older = this.#newer
      this.#newer = new Map()
    }
    this.#newer.set(key, value)
  }
}
