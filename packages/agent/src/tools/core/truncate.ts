import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { failureText, privateFileMode, replaceFile } from './file-access.ts'

/** What was left out of the middle of a text. */
export interface OmittedPart {
  /** Counted from 1; the beginning of it may still be there. */
  readonly firstLine: number
  readonly chars: number
}

/**
 * A text of at most `maxChars` UTF-16 units: head and tail stay, a line that says what is missing stands between them. A
 * longer text is saved whole first, below `directory`, and the line names the file; where it cannot be saved, the line
 * says only what is missing.
 */
export async function truncateOutput(
  text: string,
  options: { readonly directory: string; readonly tool: string; readonly maxChars: number },
): Promise<{ text: string; savedTo?: string }> {
  const { directory, tool, maxChars } = options
  if (text.length <= maxChars) return { text }
  const savedTo = await saveOutput(text, directory, tool)
  const readOn = savedTo === undefined ? '' : ` The whole output is in ${savedTo}: read on there from line`
  const truncated = truncateMiddle(text, maxChars, ({ firstLine, chars }) =>
    savedTo === undefined
      ? `[${chars} characters left out, from line ${firstLine}.]`
      : `[${chars} characters left out.${readOn} ${firstLine}.]`,
  )
  return savedTo === undefined ? { text: truncated } : { text: truncated, savedTo }
}

async function saveOutput(text: string, directory: string, tool: string): Promise<string | undefined> {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 8)
  const name = `${tool.replace(/[^\w-]/g, '_').slice(0, 100)}_output_${hash}.txt`
  const folder = join(directory, 'outputs')
  try {
    await mkdir(folder, { recursive: true })
    await replaceFile(join(folder, name), Buffer.from(text), privateFileMode)
    return join(folder, name)
  } catch (error) {
    if (failureText(error) === undefined) throw error
    return undefined
  }
}

/**
 * Cuts the middle out of a text that is longer than `maxChars`: between lines where lines are short enough, never inside of
 * a surrogate pair. The result is within `maxChars` unless the notice alone is longer.
 */
export function truncateMiddle(text: string, maxChars: number, notice: (cut: OmittedPart) => string): string {
  if (text.length <= maxChars) return text
  const noticeChars = notice({ firstLine: text.length, chars: text.length }).length + 2
  const budget = Math.max(0, maxChars - noticeChars)
  const head = text.slice(0, headEnd(text, Math.ceil(budget / 2)))
  const tail = text.slice(tailStart(text, text.length - Math.floor(budget / 2)))
  const noticeText = notice({
    firstLine: countOccurrences(head, '\n') + 1,
    chars: text.length - head.length - tail.length,
  })
  return `${head}${head === '' || head.endsWith('\n') ? '' : '\n'}${noticeText}${tail === '' ? '' : '\n'}${tail}`
}

/** Where the head ends: after a line when one ends in its second half. */
function headEnd(text: string, end: number): number {
  const line = text.lastIndexOf('\n', end - 1) + 1
  return end > 0 && line > end / 2 ? line : avoidSurrogatePair(text, end, -1)
}

/** Where the tail begins: with a line when one begins in its first half. */
function tailStart(text: string, start: number): number {
  const line = text.indexOf('\n', start - 1) + 1
  return line > 0 && line - start < (text.length - start) / 2 ? line : avoidSurrogatePair(text, start, 1)
}

function avoidSurrogatePair(text: string, at: number, step: 1 | -1): number {
  const isInPair = /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(Math.max(0, at - 1), at + 1))
  return isInPair ? at + step : at
}

export function countOccurrences(text: string, part: string): number {
  let count = 0
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) count++
  return count
}
