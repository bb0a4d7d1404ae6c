import { setTimeout as pause } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { valueWithin } from '../core/value-within.ts'
import type { ActiveBrowser, BrowserCommand } from './command.ts'
import { frameMs, innerFrames, readState } from './page-state.ts'
import { waitFor } from './wait-for.ts'

const maxWaitMs = 60_000
const pollMs = 200

/** Reads the state of the page when it shows the text, in any frame, or when that has not come in time. */
export function readAwaitedState(text: string, withScreenshot: boolean): BrowserCommand {
  return async (opened, signal) => {
    const seconds = await waitForText(opened, text, signal)
    const notes =
      seconds === undefined ? {} : { [waitFor.name]: `The text did not come within ${seconds} s.` }
    return await readState(withScreenshot, notes)(opened, signal)
  }
}

/** Resolves with the seconds after which it gave up; undefined: the text is there. */
async function waitForText(
  { tabs, limits }: ActiveBrowser,
  text: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  // A wait is no time-out of the browser.
  const waitMs = Math.min(maxWaitMs, 0.9 * limits.shortMs)
  const page = await tabs.current()
  for (const end = performance.now() + waitMs; ; await pause(pollMs, undefined, { signal })) {
    if (await shows(page, text)) return undefined
    if (performance.now() > end) return Math.round(waitMs / 1000)
  }
}

async function shows(page: Page, text: string): Promise<boolean> {
  const counts = [page.mainFrame(), ...innerFrames(page)].map((frame) =>
    valueWithin(frameMs, frame.getByText(text).filter({ visible: true }).count()),
  )
  return (await Promise.all(counts)).some((count = 0) => count > 0)
}
