/** A page of a search with its items as the server wrote them. */
interface RawPage {
  readonly items: readonly string[]
  readonly next_page_id: string | null
}

/** Splits a page (`{"items": [...], "next_page_id": ...}`, valid JSON) without reserializing its items. */
export function parseRawPage(text: string): RawPage {
  const items: string[] = []
  let next_page_id: string | null = null
  for (const [name, value] of jsonMembers(text)) {
    if (name === '"items"') for (const [, item] of jsonMembers(value)) items.push(item)
    else if (name === '"next_page_id"') next_page_id = JSON.parse(value)
  }
  return { items, next_page_id }
}

/** The values of a JSON object with their names as written, or of an array, whose values have none. */
function* jsonMembers(text: string): Generator<[name: string, value: string]> {
  let depth = 0
  let start = 0
  let name = ''
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === '"') {
      at++
      while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1
    } else if (character === '{' || character === '[') {
      if (depth++ === 0) start = at + 1
    } else if (character === ':' && depth === 1) {
      name = text.slice(start, at).trim()
      start = at + 1
    } else if (character === '}' || character === ']' || character === ',') {
      if (depth === 1) {
        const value = text.slice(start, at).trim()
        if (value !== '') yield [name, value]
        start = at + 1
      }
      if (character !== ',') depth--
    }
  }
}
