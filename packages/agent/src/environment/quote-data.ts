import { visibleText } from '@slipway/protocol/visible-text'
import { ellipsize } from '../skills/skill.ts'

/** Paths and names that cannot be read as anything else. */
const plainName = /^[\w@+][\w./@+-]*$/

/**
 * A text of strangers as data within a line: what is not seen is shown, and it is quoted unless it is a plain
 * name. It cannot end its quotes, open a tag or a fence, or have more than `max` characters.
 */
export function quoteData(text: string, max: number): string {
  const shown = ellipsize(visibleText(ellipsize(text, max)), max)
  if (plainName.test(shown)) return shown
  return `"${shown.replaceAll('<', '‹').replaceAll('>', '›').replace(/["`]/g, "'")}"`
}

/** The first texts that fit into `max` characters, and how many others there are; `isCut`: there are more. */
export function joinData(texts: readonly string[], max: number, isCut: boolean): string {
  const shown: string[] = []
  let room = max
  for (const text of texts) {
    room -= text.length + 2
    if (room < 0) break
    shown.push(text)
  }
  const rest = texts.length - shown.length
  const others = isCut ? [`over ${rest} more`] : rest > 0 ? [`${rest} more`] : []
  return [...shown, ...others].join(', ')
}
