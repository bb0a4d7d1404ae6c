const maxBytes = 262_144

/** The newest lines of a program's output streams, each with the name of its stream. */
export class OutputTail {
  #bytes = Buffer.alloc(0)
  #isTruncated = false
  readonly #open = new Map<string, Buffer>()

  append(stream: 'stdout' | 'stderr', chunk: Buffer): void {
    const text = Buffer.concat([this.#open.get(stream) ?? Buffer.alloc(0), chunk])
    const end = text.lastIndexOf(10) + 1
    // A line without an end is cut where it would fill the memory.
    const cut = end === 0 && text.length > maxBytes ? text.length : end
    this.#open.set(stream, text.subarray(cut))
    for (const line of text.subarray(0, cut).toString().split('\n').slice(0, -1))
      this.#push(Buffer.from(`[${stream}] ${line}\n`))
  }

  /** The last bytes, and whether there were more. */
  read(limitBytes: number): { readonly logs: string; readonly truncated: boolean } {
    const rest = [...this.#open].flatMap(([stream, text]) =>
      text.length === 0 ? [] : [Buffer.from(`[${stream}] ${text}`)],
    )
    const all = Buffer.concat([this.#bytes, ...rest])
    const logs = all.subarray(Math.max(0, all.length - limitBytes)).toString()
    return { logs, truncated: this.#isTruncated || all.length > limitBytes }
  }

  #push(line: Buffer): void {
    const all = Buffer.concat([this.#bytes, line])
    if (all.length > maxBytes) this.#isTruncated = true
    this.#bytes = Buffer.from(all.subarray(Math.max(0, all.length - maxBytes)))
  }
}
