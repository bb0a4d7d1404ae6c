import { firstChars } from '@slipway/shared/text'

/** Longest answer of a tool, in UTF-16 code units: what a model can use of it. */
export const maxAnswerLength = 60_000
const textLengths = [4_000, 1_000, 250]

/** A JSON value whose longer texts are cut, and say how much is missing. */
export function cutTexts(value: unknown, maxLength: number): unknown {
  if (typeof value === 'string') {
    const missing = value.length - maxLength
    return missing <= 0 ? value : `${firstChars(value, maxLength)}… [${missing} more characters]`
  }
  if (Array.isArray(value)) return value.map((one) => cutTexts(one, maxLength))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cutTexts(one, maxLength)]))
}

/**
 * The first items of a list whose JSON is at most `maxAnswerLength` long, and how many are left out; texts
 * are cut before an item is. The first one is always there, as a cut text when nothing else helps.
 */
export function fitItems(items: readonly unknown[]): { readonly items: unknown[]; readonly omitted: number } {
  for (const maxLength of textLengths) {
    const cut = items.map((item) => cutTexts(item, maxLength))
    if (JSON.stringify(cut).length <= maxAnswerLength) return { items: cut, omitted: 0 }
  }
  const fitted: unknown[] = []
  let length = 0
  for (const item of items) {
    const cut = cutTexts(item, 250)
    const text = JSON.stringify(cut)
    length += text.length + 1
    if (length > maxAnswerLength && fitted.length > 0) break
    fitted.push(text.length > maxAnswerLength ? cutTexts(text, maxAnswerLength) : cut)
  }
  return { items: fitted, omitted: items.length - fitted.length }
}

/** The same as a member of an answer, which says when items do not fit. */
export function fitMember<N extends string>(name: N, list: readonly unknown[]) {
  const { items, omitted } = fitItems(list)
  const note = omitted === 0 ? {} : { omitted, note: `${omitted} more do not fit: ask for fewer at a time` }
  return { [name]: items, ...note } as { readonly [K in N]: unknown[] } & typeof note
}
