import { setTimeout as delay } from 'node:timers/promises'
import type { Browser, BrowserContext } from 'playwright-core'
import { killProcessGroup } from '../../workspace/processes.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import { findBrowser, isExecutable } from './find-browser.ts'
import { pageScript } from './page-script.ts'

/** The selector engine of `page-script.ts` in Playwright. */
export const selectorEngineName = 'slipway'

/** A browser that runs, with one profile of its own that begins empty and ends with it. */
export interface BrowserHandle {
  readonly context: BrowserContext
  isConnected(): boolean
  /** Whether an error of the library says that something did not happen in time. */
  isTimeout(error: unknown): boolean
  /** Ends every process of the browser and removes its profile; resolves when they are gone. */
  close(): Promise<void>
}

const viewport = { width: 1280, height: 900 }
/** A browser that has not ended by then is killed. */
const closeMs = 5000

let playwright: Promise<typeof import('playwright-core')> | undefined

async function loadPlaywright(): Promise<typeof import('playwright-core')> {
  const loaded = await import('playwright-core')
  // The library's registry is one for the whole process: a second time would be refused.
  await loaded.selectors.register(selectorEngineName, { content: pageScript }, { contentScript: true })
  return loaded
}

/**
 * Starts the browser at `executable`, or the one that is installed; undefined when there is none. Rejects when it does
 * not start. It sees the workspace's environment. Its profile is a temporary directory of Playwright, which also kills it
 * when this process ends.
 */
export async function launchBrowser(
  workspace: Workspace,
  executable: string | undefined,
): Promise<BrowserHandle | undefined> {
  const executablePath = executable ?? (await findBrowser(workspace.env.PATH))
  if (executablePath === undefined || !(await isExecutable(executablePath))) return undefined
  playwright ??= loadPlaywright()
  const { chromium, errors } = await playwright
  const browser = await chromium.launch({
    executablePath,
    env: { ...workspace.env },
    // Chromium refuses to start as root with its own sandbox; everybody else gets it.
    chromiumSandbox: process.getuid?.() !== 0,
    // Signals are for the server to handle: it closes its conversations, and they their browsers.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    timeout: 60_000,
  })
  try {
    const context = await browser.newContext({ viewport, acceptDownloads: false })
    // The limit of an action is the session's; a second one would only blur what went wrong.
    context.setDefaultTimeout(0)
    const pid = await browserProcessId(browser)
    return {
      context,
      isConnected: () => browser.isConnected(),
      isTimeout: (error) => error instanceof errors.TimeoutError,
      close: () => closeBrowser(browser, pid),
    }
  } catch (error) {
    await closeBrowser(browser, undefined)
    throw error
  }
}

async function browserProcessId(browser: Browser): Promise<number | undefined> {
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  await session.detach()
  return processInfo.find(({ type }) => type === 'browser')?.id
}

async function closeBrowser(browser: Browser, pid: number | undefined): Promise<void> {
  const isClosed = browser.close().then(
    () => true,
    () => true,
  )
  if (await Promise.race([isClosed, delay(closeMs, false, { ref: false })])) return
  killProcessGroup(pid)
  await Promise.race([isClosed, delay(closeMs, false, { ref: false })])
}
