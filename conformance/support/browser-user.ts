import { access } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import type { Browser, Locator, Page } from 'playwright-core'
import { openBrowser } from './shared-browser.ts'

const waitMs = 60_000

/** The path of an installed Chromium; undefined when there is none, which is printed as the reason of skipped tests. */
export async function findChromium(): Promise<string | undefined> {
  const directories = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/snap/bin']
  const names = ['chromium', 'chromium-browser', 'google-chrome']
  for (const path of directories.flatMap((directory) => names.map((name) => join(directory, name)))) {
    if (await exists(path)) return path
  }
  console.warn('SKIPPED: Chromium is not installed; Debian: apt-get install chromium')
  return undefined
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}

/** A user of the web client in a browser. Pages reach loopback addresses only. */
export class BrowserUser implements AsyncDisposable {
  readonly page: Page
  /** Replies of the server with a status of 400 or more: `404 GET /path`. */
  readonly errorResponses: string[] = []
  /** Uncaught errors of the page. */
  readonly errors: string[] = []
  readonly #browser: Browser
  readonly #url: string

  private constructor(browser: Browser, page: Page, url: string) {
    this.#browser = browser
    this.page = page
    this.#url = url
    page.setDefaultTimeout(waitMs)
    page.on('response', (response) => {
      if (response.status() >= 400)
        this.errorResponses.push(
          `${response.status()} ${response.request().method()} ${response.url().replace(url, '')}`,
        )
    })
    page.on('pageerror', (error) => this.errors.push(error.message))
  }

  static async open(executablePath: string, url: string): Promise<BrowserUser> {
    const browser = await openBrowser(executablePath)
    const page = await browser.newPage({ viewport: { width: 1400, height: 900 } })
    return new BrowserUser(browser, page, url)
  }

  /** Opens a path of the server and waits for the page's frame. */
  async visit(path = '/'): Promise<void> {
    await this.page.goto(`${this.#url}${path}`)
  }

  byTestId(testId: string): Locator {
    return this.page.getByTestId(testId).filter({ visible: true }).first()
  }

  /** Waits until a text is visible. */
  async waitForText(text: string): Promise<void> {
    await this.page.getByText(text).filter({ visible: true }).first().waitFor()
  }

  async clickButton(name: string): Promise<void> {
    await this.page.getByRole('button', { name, exact: true }).filter({ visible: true }).last().click()
  }

  /** Types a message and sends it. */
  async sendMessage(text: string): Promise<void> {
    await this.byTestId('chat-input').click()
    await this.byTestId('chat-input').pressSequentially(text)
    await this.byTestId('submit-button').click()
  }

  /** Saves a screenshot of the page in the folder that `SLIPWAY_SCREENSHOTS` names, for people. */
  async screenshot(name: string): Promise<void> {
    const directory = process.env.SLIPWAY_SCREENSHOTS
    if (directory !== undefined) await this.page.screenshot({ path: join(directory, `${name}.png`) })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close()
  }
}
