import { parseJson } from '@slipway/shared/json'
import type { Finding, Rule } from './rule.ts'
import type { Block, CallBlock, TextBlock, ToolNode, WireRequest } from './wire-request.ts'

type Find = Rule['find']

export function blocksOf<K extends Block['kind']>(
  { turns }: WireRequest,
  kind: K,
): readonly Extract<Block, { kind: K }>[] {
  return turns.flatMap(({ blocks }) =>
    blocks.filter((block): block is Extract<Block, { kind: K }> => block.kind === kind),
  )
}

/** Halves of surrogate pairs, also in names of members, and in the JSON of arguments. */
export const brokenTexts: Find = ({ body }) => brokenIn(body, '')

function brokenIn(node: unknown, at: string): Finding[] {
  if (typeof node === 'string') {
    if (!node.isWellFormed()) return [{ at, what: 'half of a surrogate pair' }]
    return /\.arguments$/.test(at) && /\\u[dD]/.test(node) ? brokenIn(parseJson(node), `${at}.json`) : []
  }
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([name, value]) => {
    const place = at === '' ? name : `${at}.${name}`
    const own = name.isWellFormed() ? [] : [{ at, what: 'half of a surrogate pair in a name' }]
    return [...own, ...brokenIn(value, place)]
  })
}

const isBlank = ({ text }: TextBlock) => text.trim() === ''

/** Texts without any visible character. */
export const blankTexts: Find = (request) =>
  blocksOf(request, 'text')
    .filter(isBlank)
    .map(({ at }) => ({ at, what: 'a blank text' }))

export const emptyTexts: Find = (request) =>
  blocksOf(request, 'text')
    .filter(({ text, signature }) => text === '' && signature === undefined)
    .map(({ at }) => ({ at, what: 'an empty text' }))

/** Messages without a content. */
export const emptyTurns: Find = ({ turns }) =>
  turns
    .filter(({ blocks }) => !blocks.some(({ kind, ...block }) => kind !== 'text' || hasText(block)))
    .map(({ at, role }) => ({ at, what: role }))

const hasText = (block: object) => 'text' in block && block.text !== ''

export function badIds(pattern: RegExp): Find {
  return (request) =>
    [...blocksOf(request, 'call'), ...blocksOf(request, 'result')]
      .filter(({ id }) => !pattern.test(id))
      .map(({ at, id }) => ({ at: `${at}.id`, what: id }))
}

function repeated<T extends { readonly at: string }>(
  items: readonly T[],
  keyOf: (item: T) => string,
): Finding[] {
  const seen = new Set<string>()
  return items.flatMap((item) => {
    const key = keyOf(item)
    if (seen.has(key)) return [{ at: item.at, what: key }]
    seen.add(key)
    return []
  })
}

export const repeatedIds: Find = (request) => repeated<CallBlock>(blocksOf(request, 'call'), ({ id }) => id)

export const repeatedTools: Find = ({ tools }) => repeated<ToolNode>(tools, ({ name }) => name)

export function badNames(pattern: RegExp): Find {
  return (request) =>
    [...blocksOf(request, 'call'), ...request.tools]
      .filter(({ name }) => !pattern.test(name))
      .map(({ at, name }) => ({ at: `${at}.name`, what: name }))
}

export function longDescriptions(max: number): Find {
  return ({ tools }) =>
    tools
      .filter(({ description }) => typeof description === 'string' && description.length > max)
      .map(({ at, description }) => ({ at: `${at}.description`, what: String(String(description).length) }))
}

export const blankDescriptions: Find = ({ tools }) =>
  tools
    .filter(({ description }) => typeof description === 'string' && description.trim() === '')
    .map(({ at }) => ({ at: `${at}.description`, what: 'an empty description' }))

/** Arguments that are no JSON object. */
export const badInputs: Find = (request) =>
  blocksOf(request, 'call')
    .filter(({ input }) => typeof input !== 'object' || input === null || Array.isArray(input))
    .map(({ at }) => ({ at: `${at}.arguments`, what: 'no JSON object' }))

export function tooManyMarks(max: number): Find {
  return ({ marks }) => (marks > max ? [{ at: '', what: String(marks) }] : [])
}
