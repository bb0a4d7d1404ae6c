import { setTimeout as delay } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { type Body, failed } from './command.ts'
import { ask } from './page-state.ts'
import type { Session } from './session.ts'

/** Characters of one part. */
const partChars = 30_000
const maxFrames = 20
const frameMs = 3000

/**
 * Reads the main text of the page as Markdown, `partChars` characters at a time from `start`. Secrets are taken out before
 * it is cut, so that none is cut in two.
 */
export function readContent(session: Session, start: number, withLinks: boolean): Body {
  return async ({ tabs }, signal) => {
    const page = await tabs.current()
    const whole = session.mask(await textOf(page, withLinks, signal))
    if (whole === '') return { text: `The page ${page.url()} has no text.` }
    if (start >= whole.length)
      return failed(`start_from_char is ${start}, but the text of the page has ${whole.length} characters.`)
    const from = start + (isInPair(whole, start) ? 1 : 0)
    const to = Math.min(whole.length, from + partChars)
    const end = to - (isInPair(whole, to) ? 1 : 0)
    const part = whole.slice(from, end)
    if (from === 0 && end === whole.length) return { text: part }
    const rest =
      end < whole.length ? `; read on with start_from_char ${end}` : ', which is the end of the text'
    return { text: `${part}\n\n[Characters ${from} to ${end} of ${whole.length}${rest}.]` }
  }
}

async function textOf(page: Page, withLinks: boolean, signal: AbortSignal): Promise<string> {
  const command = withLinks ? 'text links' : 'text'
  const inner = page.frames().filter((frame) => frame !== page.mainFrame())
  const asked = inner.slice(0, maxFrames).map(async (frame) => {
    const answer = ask<{ text: string }>(frame, command, AbortSignal.timeout(frameMs)).catch(() => undefined)
    const text = (await Promise.race([answer, delay(frameMs, undefined, { ref: false })]))?.text ?? ''
    return text === '' ? '' : `[Frame ${frame.url().slice(0, 200)}]\n\n${text}`
  })
  const main = await ask<{ text: string }>(page.mainFrame(), command, signal)
  const texts = [main.text, ...(await Promise.all(asked))]
  return texts.filter((text) => text !== '').join('\n\n')
}

function isInPair(text: string, at: number): boolean {
  return /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(Math.max(0, at - 1), at + 1))
}
