import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { BrowserContext, Dialog, Page } from 'playwright-core'
import type { Happening } from './recording.ts'

export interface Tab {
  readonly id: string
  readonly url: string
  readonly title: string
  readonly is_current: boolean
}

const maxTabs = 30
const maxNotes = 12
/** A page that has asked so often within the time of `dialogMs` is closed: it would never do anything else. */
const maxDialogs = 20
const dialogMs = 10_000
/** A page whose title does not come in time is listed without. */
const titleMs = 2000
const openSchemes = ['http:', 'https:', 'about:', 'blob:', 'chrome-error:']

/**
 * The tabs of one browser. Ids are 4 characters and not used again soon. Dialogs are dismissed, downloads refused,
 * windows that pages open become tabs; what happened that way is told by `takeNotes`.
 */
export class Tabs {
  readonly #context: BrowserContext
  readonly #happened: (happening: Happening) => void
  readonly #ids = new Map<Page, string>()
  readonly #given = new Set<string>()
  readonly #dialogs = new Map<Page, number[]>()
  /** How often each was said. */
  readonly #notes = new Map<string, number>()
  #missed = 0
  #current: Page | undefined
  /** Tabs that are being opened by us need no note. */
  #opening = 0

  constructor(context: BrowserContext, happened: (happening: Happening) => void) {
    this.#context = context
    this.#happened = happened
    context.on('page', (page) => this.#add(page))
  }

  /** What happened by itself since the last time, in sentences. */
  takeNotes(): string[] {
    const notes = [...this.#notes].map(([text, times]) => (times === 1 ? text : `${text} (${times} times)`))
    if (this.#missed > 0) notes.unshift(`${this.#missed} more things happened before:`)
    this.#notes.clear()
    this.#missed = 0
    return notes
  }

  /** The tab that actions are for; a blank one is opened when there is none. */
  async current(): Promise<Page> {
    return this.#current ?? (await this.open())
  }

  /** Opens a blank tab, which becomes the current one. */
  async open(): Promise<Page> {
    this.#opening++
    try {
      const page = await this.#context.newPage()
      this.#current = page
      return page
    } finally {
      this.#opening--
    }
  }

  get(id: string): Page | undefined {
    return [...this.#ids].find(([, known]) => known === id)?.[0]
  }

  idOf(page: Page): string {
    return this.#ids.get(page) ?? ''
  }

  async list(): Promise<Tab[]> {
    const pages = [...this.#ids]
    return await Promise.all(
      pages.map(async ([page, id]) => ({
        id,
        url: page.url().slice(0, 2000),
        title: await titleOf(page),
        is_current: page === this.#current,
      })),
    )
  }

  async switchTo(page: Page): Promise<void> {
    this.#current = page
    // For the page to know that it is looked at; one that hangs does not answer.
    await Promise.race([page.bringToFront().catch(() => {}), delay(titleMs, undefined, { ref: false })])
  }

  async close(page: Page): Promise<void> {
    this.#remove(page)
    await page.close()
  }

  #add(page: Page): void {
    if (this.#ids.size >= maxTabs) {
      this.#note(`A page wanted to open a tab, but there are ${maxTabs} already: it was closed.`)
      quietly(page.close())
      return
    }
    const id = this.#newId()
    this.#ids.set(page, id)
    this.#current ??= page
    this.#happened({ type: 'tab_opened', tab: id, url: page.url() })
    if (this.#opening === 0) this.#note(`A page opened the tab ${id}.`)
    this.#watch(page, id)
  }

  #watch(page: Page, id: string): void {
    page.on('dialog', (dialog) => this.#dismiss(page, id, dialog))
    page.on('download', (download) => {
      this.#happened({ type: 'download', tab: id, url: download.url() })
      this.#note(`The download of ${download.url().slice(0, 300)} was refused: this browser saves no files.`)
    })
    page.on('framenavigated', (frame) => {
      if (frame !== page.mainFrame()) return
      this.#happened({ type: 'navigated', tab: id, url: frame.url().slice(0, 2000) })
      const scheme = URL.parse(frame.url())?.protocol ?? 'about:'
      if (openSchemes.includes(scheme)) return
      this.#note(`The page of tab ${id} went to a ${scheme} address, which is not allowed.`)
      quietly(page.goto('about:blank'))
    })
    page.on('pageerror', (error) =>
      this.#happened({ type: 'page_error', tab: id, message: error.message.slice(0, 1000) }),
    )
    page.on('crash', () => {
      this.#note(`The page of tab ${id} crashed; the tab was closed.`)
      this.#remove(page)
      quietly(page.close())
    })
    page.on('close', () => {
      if (this.#remove(page)) this.#note(`The tab ${id} was closed by its page.`)
    })
  }

  #dismiss(page: Page, id: string, dialog: Dialog): void {
    const type = dialog.type()
    this.#happened({ type: 'dialog', tab: id, dialog: type, message: dialog.message().slice(0, 1000) })
    const since = Date.now() - dialogMs
    const recent = [...(this.#dialogs.get(page) ?? []).filter((moment) => moment > since), Date.now()]
    this.#dialogs.set(page, recent)
    if (recent.length > maxDialogs) {
      if (this.#remove(page)) this.#note(`The tab ${id} was closed: its page opened dialogs without end.`)
      quietly(page.close())
      return
    }
    // To dismiss the question whether to leave would mean to stay.
    if (type === 'beforeunload') {
      quietly(dialog.accept())
      return
    }
    this.#note(`The page showed a dialog (${type}), which was dismissed: ${dialog.message().slice(0, 500)}`)
    quietly(dialog.dismiss())
  }

  #remove(page: Page): boolean {
    const id = this.#ids.get(page)
    if (id === undefined) return false
    this.#ids.delete(page)
    this.#dialogs.delete(page)
    if (this.#current === page) this.#current = [...this.#ids.keys()].at(-1)
    this.#happened({ type: 'tab_closed', tab: id })
    return true
  }

  #note(text: string): void {
    this.#notes.set(text, (this.#notes.get(text) ?? 0) + 1)
    if (this.#notes.size <= maxNotes) return
    // What came last says best how things are.
    const [[oldest, times] = ['', 0]] = this.#notes
    this.#notes.delete(oldest)
    this.#missed += times
  }

  #newId(): string {
    // An id is not soon given again: a tab that is gone should not be taken for another one.
    if (this.#given.size > 20_000) this.#given.clear()
    for (;;) {
      const id = randomBytes(2).toString('hex')
      if (this.#given.has(id) || this.get(id) !== undefined) continue
      this.#given.add(id)
      return id
    }
  }
}

export async function titleOf(page: Page): Promise<string> {
  const title = page.title().catch(() => '')
  return (await Promise.race([title, delay(titleMs, '', { ref: false })])).slice(0, 300)
}

/** What nobody waits for and what may fail. */
function quietly(promise: Promise<unknown>): void {
  promise.catch(() => {})
}
