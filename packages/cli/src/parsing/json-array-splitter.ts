/**
 * Splits a streamed JSON array into the texts of its members (objects or arrays), each as soon as it is
 * complete. A truncated stream ends the iteration.
 */
export async function* splitJsonArray(stream: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let buffer = ''
  let depth = 0
  let start = 0
  let inString = false
  let isEscaped = false
  for await (const bytes of stream) {
    const from = buffer.length
    buffer += decoder.decode(bytes, { stream: true })
    for (let index = from; index < buffer.length; index++) {
      const character = buffer[index]
      if (isEscaped) isEscaped = false
      else if (inString) {
        if (character === '\\') isEscaped = true
        else if (character === '"') inString = false
      } else if (character === '"') inString = true
      else if (character === '{' || character === '[') {
        if (depth++ === 1) start = index
      } else if (character === '}' || character === ']') {
        if (--depth === 1) {
          yield buffer.slice(start, index + 1)
          start = index + 1
        }
      }
    }
    buffer = buffer.slice(start)
    start = 0
  }
}
