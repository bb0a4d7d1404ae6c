import { firstChars, isInSurrogatePair } from '@slipway/shared/text'
import type { Page } from 'playwright-core'
import { outputLimits } from '../core/output-limits.ts'
import { valueWithin } from '../core/value-within.ts'
import { type BrowserCommand, failedResult } from './command.ts'
import { innerFrames, queryFrame } from './page-state.ts'
import type { BrowserSession } from './session.ts'

const partChars = outputLimits.browser_get_content
const frameMs = 3000

/**
 * Reads the main text of the page as Markdown, `partChars` characters from `start`. Secrets are redacted
 * before the text is split.
 */
export function readContent(session: BrowserSession, start: number, withLinks: boolean): BrowserCommand {
  return async ({ tabs }, signal) => {
    const page = await tabs.current()
    const fullText = session.redact(await pageText(page, withLinks, signal))
    if (fullText === '') return { text: `The page ${page.url()} has no text.` }
    if (start >= fullText.length)
      return failedResult(
        `start_from_char is ${start}, but the text of the page has ${fullText.length} characters.`,
      )
    const from = start + (isInSurrogatePair(fullText, start) ? 1 : 0)
    const to = Math.min(fullText.length, from + partChars)
    const end = to - (isInSurrogatePair(fullText, to) ? 1 : 0)
    const part = fullText.slice(from, end)
    if (from === 0 && end === fullText.length) return { text: part }
    const continuation =
      end < fullText.length ? `; read on with start_from_char ${end}` : ', which is the end of the text'
    return { text: `${part}\n\n[Characters ${from} to ${end} of ${fullText.length}${continuation}.]` }
  }
}

async function pageText(page: Page, withLinks: boolean, signal: AbortSignal): Promise<string> {
  const command = withLinks ? 'text links' : 'text'
  const frameTexts = innerFrames(page).map(async (frame) => {
    const query = queryFrame<{ text: string }>(frame, command, AbortSignal.timeout(frameMs))
    const { text = '' } = (await valueWithin(frameMs, query)) ?? {}
    return text === '' ? '' : `[Frame ${firstChars(frame.url(), 200)}]\n\n${text}`
  })
  const main = await queryFrame<{ text: string }>(page.mainFrame(), command, signal)
  const texts = [main.text, ...(await Promise.all(frameTexts))]
  return texts.filter((text) => text !== '').join('\n\n')
}
