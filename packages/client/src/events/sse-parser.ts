/**
 * One server-sent event. `id` is the last id of the stream, empty before the first; `type` defaults to
 * `message`.
 */
export interface ServerSentEvent {
  readonly type: string
  readonly id: string
  readonly data: string
}

/**
 * Parses `text/event-stream` from chunks of any size and returns complete events. Skips comments and events
 * without data; drops an unfinished event.
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
