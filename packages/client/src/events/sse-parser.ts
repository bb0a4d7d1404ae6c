/**
 * One server-sent event. `id` is the last id that the stream has named, the empty text before the first; `type` is its name,
 * `message` when it has none.
 */
export interface ServerSentEvent {
  readonly type: string
  readonly id: string
  readonly data: string
}

/**
 * Reads `text/event-stream`: give it the bytes as they come, in pieces of any size, and it answers the events
 * that are complete. Comments and events without data give nothing; what the stream did not finish is dropped.
 */
export class SseParser {
  // Takes a byte order mark away and puts characters together that were cut.
  readonly #decoder = new TextDecoder()
  #line = ''
  #isAfterCr = false
  #data: string[] = []
  #id = ''
  #type = ''

  push(bytes: Uint8Array): ServerSentEvent[] {
    const events: ServerSentEvent[] = []
    let text = this.#decoder.decode(bytes, { stream: true })
    if (this.#isAfterCr && text !== '') {
      if (text.startsWith('\n')) text = text.slice(1)
      this.#isAfterCr = false
    }
    this.#isAfterCr ||= text.endsWith('\r')
    const lines = text.split(/\r\n|\r|\n/)
    const remainder = lines.pop() ?? ''
    for (const line of lines) {
      const event = this.#processLine(this.#line + line)
      this.#line = ''
      if (event !== undefined) events.push(event)
    }
    this.#line += remainder
    return events
  }

  #processLine(line: string): ServerSentEvent | undefined {
    if (line === '') {
      const data = this.#data
      const type = this.#type || 'message'
      this.#data = []
      this.#type = ''
      return data.length === 0 ? undefined : { type, id: this.#id, data: data.join('\n') }
    }
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') this.#data.push(value)
    else if (field === 'id') this.#id = value
    else if (field === 'event') this.#type = value
    return undefined
  }
}
