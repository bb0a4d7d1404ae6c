/**
 * Whether an object of a JSON text has a name twice, of which parsers keep different ones. `members` is
 * `countJsonMembers` of the text, `value` what was parsed: a parsed object has each name once.
 */
export function hasDuplicateMember(members: number | undefined, value: unknown): boolean {
  return members !== undefined && members !== countMembers(value)
}

/** The place of the first duplicate member of a valid JSON text, with its name at the end. */
export function findDuplicateMember(text: string): readonly (string | number)[] | undefined {
  return new MemberScanner(text).find()
}

export const duplicateMemberIssue = { msg: 'Duplicate member', type: 'json_duplicate_member' } as const

function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let members = 0
  if (Array.isArray(value)) for (const item of value) members += countMembers(item)
  else
    for (const name of Object.keys(value))
      members += 1 + countMembers((value as Record<string, unknown>)[name])
  return members
}

/** The tokens of a valid JSON text. Strings may have many millions of characters, too many for a pattern. */
function* readTokens(text: string): Iterable<string> {
  const pattern = /["{}[\],:]|[^\s"{}[\],:]+/g
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    if (match[0] === '"') pattern.lastIndex = stringEnd(text, match.index)
    yield match[0] === '"' ? text.slice(match.index, pattern.lastIndex) : match[0]
  }
}

function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '"') return at + 1
    if (text[at] === '\\') at++
  }
  return text.length
}

/** An open object or array: its names so far, or the index of the next item. */
interface OpenValue {
  readonly names: Set<string> | undefined
  place: string | number
}

class MemberScanner {
  readonly #tokens: Iterable<string>

  constructor(text: string) {
    this.#tokens = readTokens(text)
  }

  find(): readonly (string | number)[] | undefined {
    const open: OpenValue[] = []
    let previous = ''
    for (const token of this.#tokens) {
      const inner = open.at(-1)
      if (token === '{') open.push({ names: new Set(), place: '' })
      else if (token === '[') open.push({ names: undefined, place: 0 })
      else if (token === '}' || token === ']') open.pop()
      else if (token === ',' && inner !== undefined && inner.names === undefined)
        inner.place = Number(inner.place) + 1
      else if (
        inner?.names !== undefined &&
        token.startsWith('"') &&
        (previous === '{' || previous === ',')
      ) {
        const name: string = JSON.parse(token)
        inner.place = name
        if (inner.names.has(name)) return open.map(({ place }) => place)
        inner.names.add(name)
      }
      previous = token
    }
    return undefined
  }
}
