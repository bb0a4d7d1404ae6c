import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cp, mkdtemp, rename, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { AgentDriver } from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import { openBrowser } from '../support/shared-browser.ts'
import { type ConsoleServer, serveConsole } from './console-server.ts'

const root = resolve(import.meta.dirname, '../..')
const waitMs = 100_000

export interface ConsoleOptions {
  /** The session key of the server; without it none is needed. */
  readonly key?: string
  /** The path below which the console is served: `/behind/a/proxy`. */
  readonly path?: string
}

/** A page, and everything that went wrong in it. */
export interface WatchedPage {
  readonly page: Page
  /** Uncaught errors, errors on the browser's console and violations of the content security policy. */
  readonly problems: string[]
  /** Requests that left the console's own origin. */
  readonly foreignRequests: string[]
}

/** The console of the working tree, before a real agent server, in a real browser. */
export class ConsoleFixture implements AsyncDisposable {
  readonly #directory: string
  readonly #browser: Browser
  readonly #options: ConsoleOptions
  #server: Awaited<ReturnType<typeof startAgentServer>>
  readonly site: ConsoleServer
  /** The directory of the built pages. */
  readonly bundle: string

  private constructor(
    directory: string,
    browser: Browser,
    server: Awaited<ReturnType<typeof startAgentServer>>,
    site: ConsoleServer,
    bundle: string,
    options: ConsoleOptions,
  ) {
    this.#directory = directory
    this.bundle = bundle
    this.#browser = browser
    this.#server = server
    this.site = site
    this.#options = options
  }

  static async open(chromiumPath: string, options: ConsoleOptions = {}): Promise<ConsoleFixture> {
    const directory = await mkdtemp(join(tmpdir(), 'slipway-console-'))
    const bundle = await consoleBundle(join(directory, 'bundle'))
    const server = await startServer(directory, options)
    const site = await serveConsole(bundle, server.url, options.path)
    const browser = await openBrowser(chromiumPath)
    return new ConsoleFixture(directory, browser, server, site, bundle, options)
  }

  get api(): AgentServerApi {
    const { key } = this.#options
    return new AgentServerApi({ url: this.#server.url, headers: key ? { 'x-session-api-key': key } : {} })
  }

  get driver(): AgentDriver {
    return new AgentDriver({ api: this.api, directory: this.#directory })
  }

  /** Kills the server without warning and starts another on its data. */
  async killAndRestart(): Promise<void> {
    await this.#server.stop('SIGKILL')
    this.#server = await startServer(this.#directory, this.#options)
    this.site.target = this.#server.url
  }

  /** A page of a separate browser profile. */
  async newPage(options: BrowserContextOptions = {}): Promise<WatchedPage> {
    return await newWatchedPage(this.#browser, this.site.url, options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close()
    await this.site[Symbol.asyncDispose]()
    await this.#server.stop()
    await rm(this.#directory, { recursive: true, force: true })
  }
}

/** A page of a separate browser profile; requests to other addresses than `origin` are recorded. */
export async function newWatchedPage(
  browser: Browser,
  origin: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(waitMs)
  const problems: string[] = []
  const foreignRequests: string[] = []
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => {
    // A request that fails is an answer; the page shows what it means.
    const isFailedRequest = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !isFailedRequest) problems.push(message.text())
  })
  page.on('request', (request) => {
    const isOwn = request.url().startsWith(origin) || /^(?:data|blob):/.test(request.url())
    if (!isOwn) foreignRequests.push(request.url())
  })
  return { page, problems, foreignRequests }
}

/** The positions of all events that the timeline shows, in its order. */
export async function shownPositions(page: Page): Promise<number[]> {
  const texts = await page
    .locator('.entry[data-positions]')
    .evaluateAll((entries) => entries.map((entry) => entry.getAttribute('data-positions') ?? ''))
  return texts.flatMap((text) => text.split(' ').map(Number))
}

/** Waits until a condition of the page or the server holds. */
export async function waitUntil(isTrue: () => Promise<boolean>, what: string): Promise<void> {
  for (const end = Date.now() + waitMs; Date.now() < end; ) {
    if (await isTrue()) return
    await new Promise((done) => setTimeout(done, 200))
  }
  throw new Error(`It did not come to pass: ${what}`)
}

function startServer(directory: string, { key }: ConsoleOptions) {
  const data = join(directory, 'data')
  return startAgentServer(data, key === undefined ? {} : { SLIPWAY_NO_KEY: '', SLIPWAY_SESSION_API_KEY: key })
}

/** The built pages: in a run of `npm test` those of all its files, otherwise made here. */
async function consoleBundle(own: string): Promise<string> {
  const folder = process.env.SLIPWAY_TEST_RUN
  if (folder === undefined) {
    await buildConsole(own)
    return own
  }
  const shared = join(folder, 'console-bundle')
  if (existsSync(shared)) return shared
  await buildConsole(own)
  // Another file may have been first.
  await cp(own, `${shared}-${process.pid}`, { recursive: true })
  await rename(`${shared}-${process.pid}`, shared).catch(() => {})
  return shared
}

async function buildConsole(bundle: string): Promise<void> {
  const vite = join(root, 'node_modules/vite/bin/vite.js')
  await promisify(execFile)(process.execPath, [vite, 'build', '--outDir', bundle, '--logLevel', 'error'], {
    cwd: join(root, 'packages/console'),
    env: { ...process.env, NODE_ENV: 'production' },
  })
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Themes in which axe looks at all views: at night both, by day the one that the file of tests names. */
export function axeThemes(byDay: 'light' | 'dark'): readonly ('light' | 'dark')[] {
  return process.env.SLIPWAY_NIGHTLY === '1' ? ['light', 'dark'] : [byDay]
}

/** Violations of WCAG 2.2 AA and of the rules of axe, as `view: rule: element`. */
export async function findViolations(page: Page, view: string): Promise<string[]> {
  await page.evaluate(axeSource)
  return await page.evaluate(async (name) => {
    const { axe } = window as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> }
    }
    const { violations } = await axe.run()
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html }) => `${name}: ${id}: ${html.slice(0, 200)}`),
    )
  }, view)
}
