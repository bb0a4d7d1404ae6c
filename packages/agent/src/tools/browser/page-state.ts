import { randomBytes } from 'node:crypto'
import { firstChars } from '@slipway/shared/text'
import type { Frame, Locator, Page } from 'playwright-core'
import { valueWithin } from '../core/value-within.ts'
import {
  type ActiveBrowser,
  type BrowserCommand,
  type BrowserResult,
  failedResult,
  type PageState,
} from './command.ts'
import { selectorEngineName } from './launch.ts'
import type { FrameState, PageElement } from './page-script.ts'
import { pageTitle } from './tabs.ts'

/** Characters of elements in one answer, all frames together. */
const maxElementChars = 38_000
/** Time for an inner frame to answer; otherwise it is skipped. */
export const frameMs = 3000
/** Base64 adds a third. */
const maxScreenshotBytes = 480_000

/** Runs a command of `page-script.ts` in a frame. Rejects when the frame is gone or the signal aborts. */
export async function queryFrame<T>(frame: Frame, command: string, signal: AbortSignal): Promise<T> {
  const answer = await frame.locator(`${selectorEngineName}=${command}`).textContent({ timeout: 0, signal })
  return JSON.parse(answer ?? 'null')
}

/** A unique id for a selector. */
export function randomId(): string {
  return randomBytes(6).toString('hex')
}

export interface FoundElement {
  readonly locator: Locator
  readonly element: PageElement
  readonly page: Page
  /** The URL of a link; empty for other elements. */
  address(signal: AbortSignal): Promise<string>
}

/** The element with an index in the last snapshot, or the failure. */
export async function findElement(
  { tabs, pageState }: ActiveBrowser,
  index: number,
): Promise<FoundElement | { failure: BrowserResult }> {
  const page = await tabs.current()
  const failed = (sentence: string) => {
    const stale = 'Read the state of the page with browser_get_state and use an index from there.'
    return { failure: failedResult(`${sentence} ${stale}`) }
  }
  if (pageState?.page !== page) return failed('The elements of this tab have not been read.')
  const entry = pageState.elements[index]
  if (entry === undefined) return failed(`There is no element with the index ${index}.`)
  const locator = entry.frame.locator(`${selectorEngineName}=element ${pageState.id} ${entry.at}`)
  const isThere = !entry.frame.isDetached() && (await locator.count()) > 0
  const address = (signal: AbortSignal) =>
    queryFrame<string>(entry.frame, `link ${pageState.id} ${entry.at}`, signal)
  if (isThere) return { locator, element: entry.element, page, address }
  return failed(`The element ${index} is no longer on the page: it has changed since.`)
}

/** Reads the state of the browser and the interactive elements, as JSON, with the notes as members. */
export function readState(
  withScreenshot: boolean,
  notes: Readonly<Record<string, string>> = {},
): BrowserCommand {
  return async (opened, signal) => {
    const page = await opened.tabs.current()
    const id = randomId()
    const main = await queryFrame<FrameState>(page.mainFrame(), `state ${id} ${maxElementChars}`, signal)
    const found = main.elements.map((element) => ({ frame: page.mainFrame(), at: element.index, element }))
    const inner = await frameElements(page, id, maxElementChars - JSON.stringify(main.elements).length)
    const elements = [...found, ...inner.elements].map((element, index) => ({
      ...element,
      element: { ...element.element, index },
    }))
    opened.pageState = { id, page, elements }
    const picture = withScreenshot ? await screenshot(page, signal) : undefined
    const header = {
      url: firstChars(page.url(), 2000),
      title: await pageTitle(page),
      tabs: await opened.tabs.list(),
      scroll: { pixels_above: main.scroll.above, pixels_below: main.scroll.below },
      ...notes,
    }
    const text = stateText(header, elements, main.more + inner.more)
    return { text, isJson: true, screenshot: picture }
  }
}

function stateText(header: object, elements: PageState['elements'], more: number): string {
  const members = Object.entries(header).map(([name, value]) => `"${name}": ${JSON.stringify(value)}`)
  const lines = elements.map(({ element }) => JSON.stringify(element)).join(',\n')
  members.push(`"elements": [${lines === '' ? '' : `\n${lines}\n`}]`)
  if (more > 0)
    members.push(
      `"elements_left_out": ${more},\n"hint": "What is in view is listed first: scroll to see other elements."`,
    )
  return `{${members.join(',\n')}\n}`
}

/** Elements of the inner frames of a page, including those of other sites. */
async function frameElements(page: Page, id: string, remainingChars: number) {
  const elements: PageState['elements'][number][] = []
  let more = 0
  for (const frame of innerFrames(page)) {
    const state = await frameState(frame, `state ${id} ${Math.max(0, remainingChars)}`)
    for (const element of state?.elements ?? []) {
      elements.push({
        frame,
        at: element.index,
        element: { ...element, frame: firstChars(frame.url(), 200) },
      })
      remainingChars -= JSON.stringify(element).length + Math.min(frame.url().length, 200) + 14
    }
    more += state?.more ?? 0
  }
  return { elements, more }
}

/** At most 20. */
export function innerFrames(page: Page): Frame[] {
  return page
    .frames()
    .filter((frame) => frame !== page.mainFrame())
    .slice(0, 20)
}

/** Undefined for a frame that is gone, invisible or does not answer. */
async function frameState(frame: Frame, command: string): Promise<FrameState | undefined> {
  const read = async () => {
    const box = await (await frame.frameElement()).boundingBox()
    if (box === null || box.width < 5 || box.height < 5) return undefined
    return await queryFrame<FrameState>(frame, command, AbortSignal.timeout(frameMs))
  }
  return await valueWithin(frameMs, read())
}

/** The viewport as base64 JPEG, small enough for an event; undefined when that is not possible. */
async function screenshot(page: Page, signal: AbortSignal): Promise<string | undefined> {
  for (const quality of [75, 50, 25, 8]) {
    const bytes = await page.screenshot({ type: 'jpeg', quality, timeout: 0, signal })
    if (bytes.length <= maxScreenshotBytes) return bytes.toString('base64')
  }
  return undefined
}
