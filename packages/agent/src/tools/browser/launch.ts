import { OpenedOnce } from '@slipway/shared/async'
import { toolUser } from '@slipway/shared/tool-files'
import type { Browser, BrowserContext } from 'playwright-core'
import { killProcessGroup } from '../../workspace/processes.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import { type BrowserSearch, findBrowser, isExecutable } from '../core/find-browser.ts'
import { valueWithin } from '../core/value-within.ts'
import { pageScript } from './page-script.ts'

/** The selector engine of `page-script.ts` in Playwright. */
export const selectorEngineName = 'slipway'

/** A running browser with a temporary profile. */
export interface BrowserHandle {
  readonly context: BrowserContext
  isConnected(): boolean
  /** Whether an error of the library is a time-out. */
  isTimeout(error: unknown): boolean
  /** Ends every process of the browser and removes its profile; resolves when they are gone. */
  close(): Promise<void>
}

const viewport = { width: 1280, height: 900 }
/** Time for the browser to close before it is killed. */
const closeMs = 5000

/** It may be added while the server runs. */
const playwright = new OpenedOnce(loadPlaywright)

async function loadPlaywright(): Promise<typeof import('playwright-core')> {
  const loaded = await import('playwright-core').catch((cause: unknown) => {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND')) throw cause
    throw new Error('The browser tools need a component: run "slipway components add browser".', { cause })
  })
  // The registry is global for the process: a second registration is an error.
  await loaded.selectors.register(selectorEngineName, { content: pageScript }, { contentScript: true })
  return loaded
}

/**
 * Starts the browser at `executable`, or the installed one, with the workspace's environment; undefined when
 * there is none. Rejects when it does not start. Its profile is a temporary directory of Playwright, which
 * also kills it when this process ends.
 */
export async function launchBrowser(
  workspace: Workspace,
  executable: string | undefined,
  search: BrowserSearch = { path: workspace.env.PATH },
): Promise<BrowserHandle | undefined> {
  // Playwright would start it as the user of this process.
  if (toolUser() !== undefined || search.isOff) return undefined
  const executablePath = executable ?? (await findBrowser(search))
  if (executablePath === undefined || !(await isExecutable(executablePath))) return undefined
  const { chromium, errors } = await playwright.get()
  const browser = await chromium.launch({
    executablePath,
    env: { ...workspace.env },
    // Chromium does not start as root with its own sandbox.
    chromiumSandbox: process.getuid?.() !== 0,
    // The server handles signals and closes its conversations with their browsers.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    timeout: 60_000,
  })
  try {
    const context = await browser.newContext({ viewport, acceptDownloads: false })
    // The session limits the time of actions.
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
  if (await valueWithin(closeMs, isClosed)) return
  killProcessGroup(pid)
  await valueWithin(closeMs, isClosed)
}
