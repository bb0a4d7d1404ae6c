/**
 * The members of a JSON array that is on its way, each as soon as its last byte is there, as texts. Members are objects or arrays. A
 * stream that is cut off ends the iteration where it is.
 */
export async function* arrayItems(stream: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  let depth = 0
  let start = 0
  let isText = false
  let isEscaped = false
  for await (const bytes of stream) {
    const from = rest.length
    rest += decoder.decode(bytes, { stream: true })
    for (let at = from; at < rest.length; at++) {
      const character = rest[at]
      if (isEscaped) isEscaped = false
      else if (isText) {
        if (character === '\\') isEscaped = true
        else if (character === '"') isText = false
      } else if (character === '"') isText = true
      else if (character === '{' || character === '[') {
        if (depth++ === 1) start = at
      } else if (character === '}' || character === ']') {
        if (--depth === 1) {
          yield rest.slice(start, at + 1)
          start = at + 1
        }
      }
    }
    rest = rest.slice(start)
    start = 0
  }
}
