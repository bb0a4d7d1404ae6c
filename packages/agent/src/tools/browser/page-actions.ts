import { basename } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { firstChars } from '@slipway/shared/text'
import { isBrowserLoopback } from '@slipway/shared/url'
import type { Page, Request } from 'playwright-core'
import { ToolError } from '../core/tool-failure.ts'
import {
  type ActiveBrowser,
  type BrowserCommand,
  type BrowserResult,
  failedResult,
  playwrightErrorText,
} from './command.ts'
import type { PageElement, ScrollPosition } from './page-script.ts'
import { type FoundElement, findElement, queryFrame, randomId } from './page-state.ts'
import { pageTitle } from './tabs.ts'

/** Time for an element to be present, enabled, still and not covered. */
const readyMs = 5000
/** After an action: time for its effects to begin, and for a page that it opens to answer. */
const settleMs = 200
const responseMs = 20_000
/** Time for a page that has begun to load to complete. */
const loadMs = 10_000

/** The URL of an input, or why it is refused. A host alone means https, on this machine http. */
export function parseAddress(input: string): { readonly url: string } | { readonly refused: string } {
  const trimmed = input.trim()
  if (trimmed === 'about:blank') return { url: trimmed }
  const isHost = /^[\w.-]+(:\d+)?([/?#]|$)/.test(trimmed) || /^\[[\da-f:.]+\]/i.test(trimmed)
  const isLocal = isBrowserLoopback(URL.parse(`http://${trimmed}`)?.hostname ?? '')
  const url = URL.parse(isHost ? `${isLocal ? 'http' : 'https'}://${trimmed}` : trimmed)
  if (url === null) return { refused: `This is no address: ${firstChars(trimmed, 300)}` }
  if (url.protocol === 'http:' || url.protocol === 'https:') return { url: url.href }
  return { refused: `Only http and https addresses are opened, not ${url.protocol}` }
}

export function navigate(input: string, inNewTab: boolean): BrowserCommand {
  return async (opened, signal) => {
    const address = parseAddress(input)
    if ('refused' in address) return failedResult(address.refused)
    const page = inNewTab ? await opened.tabs.open() : await opened.tabs.current()
    return await openUrl(opened, page, address.url, signal)
  }
}

async function openUrl(
  { browser, tabs, limits: { navigationMs } }: ActiveBrowser,
  page: Page,
  url: string,
  signal: AbortSignal,
): Promise<BrowserResult> {
  try {
    const response = await page.goto(url, { waitUntil: 'commit', timeout: navigationMs, signal })
    const status = response === null || response.ok() ? '' : ` It answered with status ${response.status()}.`
    return { text: `${await arrivalText(page, signal)}${status} The tab is ${tabs.idOf(page)}.` }
  } catch (error) {
    if (signal.aborted || page.isClosed()) throw error
    if (browser.isTimeout(error))
      return failedResult(`${url} did not begin to answer within ${navigationMs / 1000} seconds.`)
    // The event of a refused download comes a little later.
    await delay(settleMs, undefined, { signal })
    return failedResult(`${url} could not be opened: ${playwrightErrorText(error)}`)
  }
}

async function arrivalText(page: Page, signal: AbortSignal): Promise<string> {
  const note = await page.waitForLoadState('load', { timeout: loadMs, signal }).then(
    () => '',
    () => ' It is still loading.',
  )
  return `The page is ${await addressAndTitle(page)}.${note}`
}

async function addressAndTitle(page: Page): Promise<string> {
  const title = await pageTitle(page)
  return `${firstChars(page.url(), 2000)}${title === '' ? '' : ` ("${title}")`}`
}

export function click(index: number, inNewTab: boolean): BrowserCommand {
  return async (opened, signal) => {
    const target = await findElement(opened, index)
    if ('failure' in target) return target.failure
    const { locator, element, page } = target
    const address = inNewTab ? await target.address(signal) : ''
    if (address !== '') return await navigate(address, true)(opened, signal)
    const before = page.url()
    let isReady = true
    await actAndSettle(page, signal, async () => {
      isReady = await locator.click({ trial: true, timeout: readyMs, signal }).then(
        () => true,
        (error: unknown) => {
          if (opened.browser.isTimeout(error)) return false
          throw error
        },
      )
      // No time limit: a click that was made must not be reported as failed.
      const modifiers = inNewTab ? (['ControlOrMeta'] as const) : []
      await locator.click({ force: true, timeout: 0, modifiers: [...modifiers], signal })
    })
    const warning = isReady
      ? ''
      : ' It was not ready for a click: something lay over it and may have got the click, or it moved or was disabled.'
    return { text: `Clicked ${elementName(element)}.${warning}${await navigationNote(page, before)}` }
  }
}

/** Into an input for files the text is paths, a line each, which `readFile` reads. */
export function type(index: number, text: string, readFile: ReadFile): BrowserCommand {
  return async (opened, signal) => {
    const target = await findElement(opened, index)
    if ('failure' in target) return target.failure
    const { locator, element, page } = target
    const refusal = typeRefusal(element)
    if (refusal !== undefined) return failedResult(`${elementName(element)} ${refusal}`)
    if (isFileInput(element)) {
      const files = await readFiles(text, readFile)
      return typeof files === 'string' ? failedResult(files) : await chooseFiles(target, files, signal)
    }
    const before = page.url()
    const isOneLine = element.tag === 'input'
    const withEnter = isOneLine && text.endsWith('\n')
    const plain = withEnter ? text.replace(/\r?\n$/, '') : text
    const options = { timeout: readyMs, signal }
    try {
      await actAndSettle(page, signal, async () => {
        if (element.tag === 'select') await locator.selectOption(text, options)
        else if (isOneLine || element.editable) await locator.fill(plain, options)
        else {
          await locator.click(options)
          await page.keyboard.insertText(plain)
        }
        if (withEnter) await locator.press('Enter', { timeout: 0, signal })
      })
    } catch (error) {
      if (!opened.browser.isTimeout(error)) throw error
      return failedResult(
        `${elementName(element)} did not take the text within ${readyMs / 1000} seconds. ${typeHint(element)}`,
      )
    }
    const enter = withEnter ? ' and pressed Enter' : ''
    return { text: `Typed into ${elementName(element)}${enter}.${await navigationNote(page, before)}` }
  }
}

/** The bytes of a file that the tools may read; rejects with a ToolError. */
type ReadFile = (path: string) => Promise<Buffer>
type ChosenFile = { readonly name: string; readonly mimeType: string; readonly buffer: Buffer }

/** Playwright passes no more to a browser. */
const maxFileBytes = 50_000_000

function isFileInput({ tag, type }: PageElement): boolean {
  return tag === 'input' && type === 'file'
}

/** Why they cannot be read, instead of the files. */
async function readFiles(text: string, readFile: ReadFile): Promise<ChosenFile[] | string> {
  const files: ChosenFile[] = []
  let sizeBytes = 0
  try {
    for (const path of text.split('\n').map((line) => line.trim())) {
      if (path === '') continue
      const buffer = await readFile(path)
      sizeBytes += buffer.length
      if (sizeBytes > maxFileBytes) return `The files have more than ${maxFileBytes / 1_000_000} MB together.`
      // Without a type Playwright takes the one that the name ends with.
      files.push({ name: basename(path), mimeType: '', buffer })
    }
  } catch (error) {
    if (error instanceof ToolError) return error.message
    throw error
  }
  return files
}

async function chooseFiles(
  { locator, element, page }: FoundElement,
  files: readonly ChosenFile[],
  signal: AbortSignal,
): Promise<BrowserResult> {
  const before = page.url()
  try {
    await actAndSettle(page, signal, () => locator.setInputFiles([...files], { timeout: readyMs, signal }))
  } catch (error) {
    // Such as several files for an input of one.
    return failedResult(`${elementName(element)} did not take the files: ${playwrightErrorText(error)}`)
  }
  const names = files.map(({ name }) => name).join(', ') || 'no file'
  return { text: `Chose ${names} for ${elementName(element)}.${await navigationNote(page, before)}` }
}

function typeRefusal({ tag, type = '', disabled, options = [] }: PageElement): string | undefined {
  if (disabled) return 'is disabled.'
  if (tag === 'input' && /^(checkbox|radio|button|submit|reset|image)$/.test(type))
    return 'takes no text: click it.'
  if (tag === 'select' && options.length === 0) return 'has no options.'
  return undefined
}

function typeHint({ tag, options }: PageElement): string {
  if (tag === 'select') return `Its options are ${JSON.stringify(options)}.`
  return 'It may be disabled, read-only or hidden.'
}

export function scroll(direction: 'up' | 'down'): BrowserCommand {
  return async ({ tabs }, signal) => {
    const page = await tabs.current()
    const query = `scroll ${randomId()} ${direction}`
    const { above, below } = await queryFrame<ScrollPosition>(page.mainFrame(), query, signal)
    // Time for lazy content to begin loading.
    await delay(settleMs, undefined, { signal })
    const position = `${above} pixels of the page are above what is in view, ${below} below.`
    return { text: `Scrolled ${direction}. ${position}` }
  }
}

export const goBack: BrowserCommand = async ({ tabs, limits }, signal) => {
  const page = await tabs.current()
  const before = page.url()
  const response = await page.goBack({ waitUntil: 'commit', timeout: limits.navigationMs, signal })
  if (response === null && page.url() === before) return failedResult('There is no page before this one.')
  return { text: await arrivalText(page, signal) }
}

/** Acts on a page and waits for the effects: a moment, and a page that it opens. */
async function actAndSettle(page: Page, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  let navigation: Request | undefined
  const onRequest = (request: Request) => {
    // The frame of a request that has none yet cannot be read.
    if (request.isNavigationRequest() && request.frame() === page.mainFrame()) navigation = request
  }
  page.on('request', onRequest)
  try {
    await act()
    await delay(settleMs, undefined, { signal })
    if (navigation !== undefined && !page.isClosed()) await waitForResponse(page, navigation, signal)
  } finally {
    page.off('request', onRequest)
  }
  if (page.isClosed()) return
  await page.waitForLoadState('load', { timeout: loadMs, signal }).catch(() => {})
}

async function waitForResponse(page: Page, request: Request, signal: AbortSignal): Promise<void> {
  const isOver = request.response().catch(() => null)
  const closed = new Promise((done) => page.once('close', done))
  await Promise.race([isOver, closed, delay(responseMs, undefined, { ref: false, signal })])
}

async function navigationNote(page: Page, before: string): Promise<string> {
  if (page.isClosed()) return ' The tab is closed now.'
  return page.url() === before ? '' : ` The page is now ${await addressAndTitle(page)}.`
}

function elementName({ index, tag, text, label, name, placeholder }: PageElement): string {
  const shownName = text ?? label ?? placeholder ?? name
  return `element ${index} <${tag}>${shownName === undefined ? '' : ` "${firstChars(shownName, 80)}"`}`
}
