import { hash } from 'node:crypto'
import { join } from 'node:path'
import { firstChars, isInSurrogatePair } from '@slipway/shared/text'
import { makeDirectory } from '@slipway/shared/tool-files'
import { privateFileMode, replaceFile } from './file-access.ts'
import { failureText } from './tool-failure.ts'

/** The omitted middle part of a text. `firstLine`: from 1; may be omitted only in part. */
interface OmittedPart {
  readonly firstLine: number
  readonly chars: number
}

/**
 * A text of at most `maxChars` UTF-16 units: head and tail, with a notice between them. A longer text is
 * first saved below `directory`, and the notice names the file if that succeeds.
 */
export async function truncateOutput(
  text: string,
  options: { readonly directory: string; readonly tool: string; readonly maxChars: number },
): Promise<{ text: string; savedTo?: string | undefined }> {
  const { directory, tool, maxChars } = options
  if (text.length <= maxChars) return { text }
  const savedTo = await saveOutput(text, directory, tool)
  const truncated = truncateMiddle(text, maxChars, ({ firstLine, chars }) =>
    savedTo === undefined
      ? `[${chars} characters left out, from line ${firstLine}.]`
      : `[${chars} characters left out. The whole output is in ${savedTo}: read on there from line ${firstLine}.]`,
  )
  return { text: truncated, savedTo }
}

async function saveOutput(text: string, directory: string, tool: string): Promise<string | undefined> {
  const name = `${firstChars(tool.replace(/[^\w-]/g, '_'), 100)}_output_${hash('sha256', text).slice(0, 8)}.txt`
  const folder = join(directory, 'outputs')
  try {
    await makeDirectory(folder, 0o700)
    await replaceFile(join(folder, name), Buffer.from(text), privateFileMode)
    return join(folder, name)
  } catch (error) {
    if (failureText(error) === undefined) throw error
    return undefined
  }
}

/**
 * Omits the middle of a text longer than `maxChars`: between lines where lines are short enough, never within
 * a surrogate pair. The result has at most `maxChars` characters unless the notice alone is longer.
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

/** End of the head: after a line that ends in its second half, if any. */
function headEnd(text: string, end: number): number {
  const line = text.lastIndexOf('\n', end - 1) + 1
  if (end > 0 && line > end / 2) return line
  return isInSurrogatePair(text, end) ? end - 1 : end
}

/** Start of the tail: at a line that starts in its first half, if any. */
function tailStart(text: string, start: number): number {
  const line = text.indexOf('\n', start - 1) + 1
  if (line > 0 && line - start < (text.length - start) / 2) return line
  return isInSurrogatePair(text, start) ? start + 1 : start
}

export function countOccurrences(text: string, part: string): number {
  let count = 0
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) count++
  return count
}
