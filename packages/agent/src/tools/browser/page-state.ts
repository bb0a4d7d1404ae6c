import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Frame, Locator, Page } from 'playwright-core'
import {
  type ActiveBrowser,
  type BrowserCommand,
  type BrowserResult,
  failedResult,
  type PageState,
} from './command.ts'
import { selectorEngineName } from './launch.ts'
import type { FrameState, PageElement, ScrollPosition } from './page-script.ts'
import { pageTitle } from './tabs.ts'

/** Characters of elements in one answer, all frames together. */
const maxElementChars = 38_000
const maxFrames = 20
/** A frame inside of a page that does not answer in this time is left out. */
const frameMs = 3000
/** Of the picture; base64 makes a third more of it. */
const maxScreenshotBytes = 480_000

/** Asks `page-script.ts` in a frame for something. Rejects when the frame is gone or the signal aborts. */
export async function queryFrame<T>(frame: Frame, command: string, signal: AbortSignal): Promise<T> {
  const answer = await frame.locator(`${selectorEngineName}=${command}`).textContent({ timeout: 0, signal })
  return JSON.parse(answer ?? 'null')
}

/** A name that no selector had before. */
export function randomId(): string {
  return randomBytes(6).toString('hex')
}

interface FoundElement {
  readonly locator: Locator
  readonly element: PageElement
  readonly page: Page
  /** Where a link leads; empty for what is none. */
  address(signal: AbortSignal): Promise<string>
}

/** The element of an index of the last state, or why there is none. */
export async function findElement(
  { tabs, pageState }: ActiveBrowser,
  index: number,
): Promise<FoundElement | { failure: BrowserResult }> {
  const page = await tabs.current()
  const stale = 'Read the state of the page with browser_get_state and use an index from there.'
  if (pageState === undefined || pageState.page !== page)
    return { failure: failedResult(`The elements of this tab have not been read. ${stale}`) }
  const entry = pageState.elements[index]
  if (entry === undefined)
    return { failure: failedResult(`There is no element with the index ${index}. ${stale}`) }
  const locator = entry.frame.locator(`${selectorEngineName}=element ${pageState.id} ${entry.at}`)
  const isThere = !entry.frame.isDetached() && (await locator.count()) > 0
  const address = (signal: AbortSignal) =>
    queryFrame<string>(entry.frame, `link ${pageState.id} ${entry.at}`, signal)
  if (isThere) return { locator, element: entry.element, page, address }
  return {
    failure: failedResult(`The element ${index} is no longer on the page: it has changed since. ${stale}`),
  }
}

/** Reads where the browser is and what can be acted on, as JSON. */
export function readState(withScreenshot: boolean): BrowserCommand {
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
      url: page.url().slice(0, 2000),
      title: await pageTitle(page),
      tabs: await opened.tabs.list(),
      scroll: { pixels_above: main.scroll.above, pixels_below: main.scroll.below },
    }
    const text = stateText(
      header,
      elements.map(({ element }) => element),
      main.more + inner.more,
    )
    return { text, isJson: true, ...(picture === undefined ? {} : { screenshot: picture }) }
  }
}

function stateText(header: object, elements: readonly PageElement[], more: number): string {
  const members = Object.entries(header).map(([name, value]) => `"${name}": ${JSON.stringify(value)}`)
  const lines = elements.map((element) => JSON.stringify(element)).join(',\n')
  members.push(`"elements": [${lines === '' ? '' : `\n${lines}\n`}]`)
  if (more > 0)
    members.push(
      `"elements_left_out": ${more},\n"hint": "What is in view is listed first: scroll to see other elements."`,
    )
  return `{${members.join(',\n')}\n}`
}

/** Elements of the frames inside of a page, those of other sites too, in the order in which the frames came. */
async function frameElements(
  page: Page,
  id: string,
  remainingChars: number,
): Promise<{ elements: PageState['elements']; more: number }> {
  const elements: PageState['elements'][number][] = []
  let more = 0
  for (const frame of page
    .frames()
    .filter((frame) => frame !== page.mainFrame())
    .slice(0, maxFrames)) {
    const state = await frameState(frame, `state ${id} ${Math.max(0, remainingChars)}`)
    for (const element of state?.elements ?? []) {
      elements.push({ frame, at: element.index, element: { ...element, frame: frame.url().slice(0, 200) } })
      remainingChars -= JSON.stringify(element).length + Math.min(frame.url().length, 200) + 14
    }
    more += state?.more ?? 0
  }
  return { elements, more }
}

/** Undefined for a frame that is gone, not to be seen or that does not answer. */
async function frameState(frame: Frame, command: string): Promise<FrameState | undefined> {
  const read = async () => {
    const box = await (await frame.frameElement()).boundingBox()
    if (box === null || box.width < 5 || box.height < 5) return undefined
    return await queryFrame<FrameState>(frame, command, AbortSignal.timeout(frameMs))
  }
  return await Promise.race([read().catch(() => undefined), delay(frameMs, undefined, { ref: false })])
}

/** What is in view as JPEG in base64, small enough for an event; undefined when the page cannot be pictured. */
async function screenshot(page: Page, signal: AbortSignal): Promise<string | undefined> {
  for (const quality of [75, 50, 25, 8]) {
    const bytes = await page.screenshot({ type: 'jpeg', quality, timeout: 0, signal })
    if (bytes.length <= maxScreenshotBytes) return bytes.toString('base64')
  }
  return undefined
}

/** The pixels above and below what is in view, in words. */
export function positionText({ above, below }: ScrollPosition): string {
  return `${above} pixels of the page are above what is in view, ${below} below.`
}
