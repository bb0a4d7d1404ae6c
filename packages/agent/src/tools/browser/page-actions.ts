import { setTimeout as delay } from 'node:timers/promises'
import type { Locator, Page, Request } from 'playwright-core'
import { type Body, failed, type Limits, type Opened, type Outcome, sentenceOf } from './command.ts'
import type { PageElement } from './page-script.ts'
import { ask, findElement, freshId, positionText } from './page-state.ts'
import { titleOf } from './tabs.ts'

/** Until an element is there, enabled, not moving and not covered. */
const readyMs = 5000
/** After an action: until what it set off shows, and until a page that it led to is there. */
const echoMs = 200
const arriveMs = 20_000
/** A page that has begun to come may take this long to be complete. */
const loadMs = 10_000

/** The address that is meant, or why it is not opened. A host alone is taken as https, on this machine as http. */
export function addressOf(given: string): { readonly url: string } | { readonly refused: string } {
  const trimmed = given.trim()
  if (trimmed === 'about:blank') return { url: trimmed }
  const isHost = /^[\w.-]+(:\d+)?([/?#]|$)/.test(trimmed) || /^\[[\da-f:.]+\]/i.test(trimmed)
  const isLocal = /^(localhost|127\.|\[::1\])/i.test(trimmed)
  const url = URL.parse(isHost ? `${isLocal ? 'http' : 'https'}://${trimmed}` : trimmed)
  if (url === null) return { refused: `This is no address: ${trimmed.slice(0, 300)}` }
  if (url.protocol === 'http:' || url.protocol === 'https:') return { url: url.href }
  return { refused: `Only http and https addresses are opened, not ${url.protocol}` }
}

export function navigate(given: string, inNewTab: boolean, { navigationMs }: Limits): Body {
  return async (opened, signal) => {
    const address = addressOf(given)
    if ('refused' in address) return failed(address.refused)
    const page = inNewTab ? await opened.tabs.open() : await opened.tabs.current()
    return await go(opened, page, { url: address.url, navigationMs, signal })
  }
}

async function go(
  { browser, tabs }: Opened,
  page: Page,
  { url, navigationMs, signal }: { url: string; navigationMs: number; signal: AbortSignal },
): Promise<Outcome> {
  try {
    const response = await page.goto(url, { waitUntil: 'commit', timeout: navigationMs, signal })
    const status = response === null || response.ok() ? '' : ` It answered with status ${response.status()}.`
    return { text: `${await arrived(page, signal)}${status} The tab is ${tabs.idOf(page)}.` }
  } catch (error) {
    if (signal.aborted || page.isClosed()) throw error
    if (browser.isTimeout(error))
      return failed(`${url} did not begin to answer within ${navigationMs / 1000} seconds.`)
    // A refused download is told by an event that comes a little later.
    await delay(echoMs, undefined, { signal })
    return failed(`${url} could not be opened: ${sentenceOf(error)}`)
  }
}

async function arrived(page: Page, signal: AbortSignal): Promise<string> {
  const isLoaded = await page.waitForLoadState('load', { timeout: loadMs, signal }).then(
    () => true,
    () => false,
  )
  const title = await titleOf(page)
  return `The page is ${page.url().slice(0, 2000)}${title === '' ? '' : ` ("${title}")`}.${isLoaded ? '' : ' It is still loading.'}`
}

export function click(index: number, inNewTab: boolean, limits: Limits): Body {
  return async (opened, signal) => {
    const found = await findElement(opened, index)
    if ('failure' in found) return found.failure
    const { locator, seen, page } = found
    const address = inNewTab ? await found.address(signal) : ''
    if (address !== '') return await navigate(address, true, limits)(opened, signal)
    const before = page.url()
    let isReady = true
    await settled(page, signal, async () => {
      isReady = await becomesReady(opened, locator, signal)
      // Without a time limit of its own: a click that was made must not be taken for one that was not.
      await locator.click({
        force: true,
        timeout: 0,
        modifiers: inNewTab ? ['ControlOrMeta'] : [],
        signal,
      })
    })
    const doubt = isReady
      ? ''
      : ' It was not ready for a click: something lay over it and may have got the click, or it moved or was disabled.'
    return { text: `Clicked ${nameOf(seen)}.${doubt}${await whereNow(page, before)}` }
  }
}

async function becomesReady({ browser }: Opened, locator: Locator, signal: AbortSignal): Promise<boolean> {
  try {
    await locator.click({ trial: true, timeout: readyMs, signal })
    return true
  } catch (error) {
    if (browser.isTimeout(error)) return false
    throw error
  }
}

export function type(index: number, text: string): Body {
  return async (opened, signal) => {
    const found = await findElement(opened, index)
    if ('failure' in found) return found.failure
    const { locator, seen, page } = found
    const refusal = typeRefusal(seen)
    if (refusal !== undefined) return failed(`${nameOf(seen)} ${refusal}`)
    const before = page.url()
    const isOneLine = seen.tag === 'input'
    const withEnter = isOneLine && text.endsWith('\n')
    const plain = withEnter ? text.replace(/\r?\n$/, '') : text
    const options = { timeout: readyMs, signal }
    try {
      await settled(page, signal, async () => {
        if (seen.tag === 'select') await locator.selectOption(text, options)
        else if (isOneLine || seen.editable) await locator.fill(plain, options)
        else {
          await locator.click(options)
          await page.keyboard.insertText(plain)
        }
        if (withEnter) await locator.press('Enter', { timeout: 0, signal })
      })
    } catch (error) {
      if (!opened.browser.isTimeout(error)) throw error
      return failed(`${nameOf(seen)} did not take the text within ${readyMs / 1000} seconds. ${whyNot(seen)}`)
    }
    const enter = withEnter ? ' and pressed Enter' : ''
    return { text: `Typed into ${nameOf(seen)}${enter}.${await whereNow(page, before)}` }
  }
}

function typeRefusal({ tag, type = '', disabled, options = [] }: PageElement): string | undefined {
  if (disabled) return 'is disabled.'
  if (tag === 'input' && type === 'file') return 'takes a file: files are not uploaded by this browser.'
  if (tag === 'input' && /^(checkbox|radio|button|submit|reset|image)$/.test(type))
    return 'takes no text: click it.'
  if (tag === 'select' && options.length === 0) return 'has no options.'
  return undefined
}

function whyNot({ tag, options }: PageElement): string {
  if (tag === 'select') return `Its options are ${JSON.stringify(options)}.`
  return 'It may be disabled, read-only or hidden.'
}

export function scroll(direction: 'up' | 'down'): Body {
  return async ({ tabs }, signal) => {
    const page = await tabs.current()
    const position = await ask<{ above: number; below: number }>(
      page.mainFrame(),
      `scroll ${freshId()} ${direction}`,
      signal,
    )
    // What loads when it comes into view begins now.
    await delay(echoMs, undefined, { signal })
    return { text: `Scrolled ${direction}. ${positionText(position)}` }
  }
}

export function goBack({ navigationMs }: Limits): Body {
  return async ({ tabs }, signal) => {
    const page = await tabs.current()
    const before = page.url()
    const response = await page.goBack({ waitUntil: 'commit', timeout: navigationMs, signal })
    if (response === null && page.url() === before) return failed('There is no page before this one.')
    return { text: await arrived(page, signal) }
  }
}

/** Does something to a page and waits for what it sets off: a moment, and the page that it leads to. */
async function settled(page: Page, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  let navigation: Request | undefined
  const onRequest = (request: Request) => {
    // Of a request that belongs to no frame yet, the frame cannot be asked for.
    if (request.isNavigationRequest() && request.frame() === page.mainFrame()) navigation = request
  }
  page.on('request', onRequest)
  try {
    await act()
    await delay(echoMs, undefined, { signal })
    if (navigation !== undefined && !page.isClosed()) await answered(page, navigation, signal)
  } finally {
    page.off('request', onRequest)
  }
  if (page.isClosed()) return
  await page.waitForLoadState('load', { timeout: loadMs, signal }).catch(() => {})
}

async function answered(page: Page, request: Request, signal: AbortSignal): Promise<void> {
  const isOver = request.response().catch(() => null)
  const closed = new Promise((done) => page.once('close', done))
  await Promise.race([isOver, closed, delay(arriveMs, undefined, { ref: false, signal })])
}

async function whereNow(page: Page, before: string): Promise<string> {
  if (page.isClosed()) return ' The tab is closed now.'
  if (page.url() === before) return ''
  const title = await titleOf(page)
  return ` The page is now ${page.url().slice(0, 2000)}${title === '' ? '' : ` ("${title}")`}.`
}

function nameOf({ index, tag, text, label, name, placeholder }: PageElement): string {
  const said = text ?? label ?? placeholder ?? name
  return `element ${index} <${tag}>${said === undefined ? '' : ` "${said.slice(0, 80)}"`}`
}
