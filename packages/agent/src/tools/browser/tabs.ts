import { randomBytes } from 'node:crypto'
import { firstChars } from '@slipway/shared/text'
import type { BrowserContext, Dialog, Page } from 'playwright-core'
import { valueWithin } from '../core/value-within.ts'
import type { RecordedEvent } from './recording.ts'

const maxTabs = 30
const maxNotes = 12
/** A page that opens more dialogs within `dialogMs` is closed. */
const maxDialogs = 20
const dialogMs = 10_000
/** Time for a page to report its title. */
const titleMs = 2000
const openSchemes = ['http:', 'https:', 'about:', 'blob:', 'chrome-error:']

/**
 * The tabs of one browser. Ids have 4 characters and are not reused soon. Dialogs are dismissed, downloads
 * refused, and windows that pages open become tabs; `takeNotes` reports these events.
 */
export class Tabs {
  readonly #context: BrowserContext
  readonly #record: (happening: RecordedEvent) => void
  readonly #ids = new Map<Page, string>()
  readonly #usedIds = new Set<string>()
  readonly #dialogs = new Map<Page, number[]>()
  /** Text -> number of times. */
  readonly #notes = new Map<string, number>()
  #droppedNotes = 0
  #current: Page | undefined
  /** Tabs that we open get no note. */
  #openingCount = 0

  constructor(context: BrowserContext, record: (happening: RecordedEvent) => void) {
    this.#context = context
    this.#record = record
    context.on('page', (page) => this.#add(page))
  }

  /** Sentences about events since the last call. */
  takeNotes(): string[] {
    const notes = [...this.#notes].map(([text, times]) => (times === 1 ? text : `${text} (${times} times)`))
    if (this.#droppedNotes > 0) notes.unshift(`${this.#droppedNotes} more things happened before:`)
    this.#notes.clear()
    this.#droppedNotes = 0
    return notes
  }

  /** The current tab; a blank one is opened when there is none. */
  async current(): Promise<Page> {
    return this.#current ?? (await this.open())
  }

  /** Opens a blank tab, which becomes the current one. */
  async open(): Promise<Page> {
    this.#openingCount++
    try {
      this.#current = await this.#context.newPage()
      return this.#current
    } finally {
      this.#openingCount--
    }
  }

  get(id: string): Page | undefined {
    return [...this.#ids].find(([, known]) => known === id)?.[0]
  }

  idOf(page: Page): string {
    return this.#ids.get(page) ?? ''
  }

  async list() {
    const describe = async ([page, id]: [Page, string]) => {
      const [url, title] = [firstChars(page.url(), 2000), await pageTitle(page)]
      return { id, url, title, is_current: page === this.#current }
    }
    return await Promise.all([...this.#ids].map(describe))
  }

  async switchTo(page: Page): Promise<void> {
    this.#current = page
    // A page that hangs does not answer.
    await valueWithin(titleMs, page.bringToFront())
  }

  async close(page: Page): Promise<void> {
    this.#remove(page)
    await page.close()
  }

  #add(page: Page): void {
    if (this.#ids.size >= maxTabs) {
      this.#addNote(`A page wanted to open a tab, but there are ${maxTabs} already: it was closed.`)
      ignoreRejection(page.close())
      return
    }
    const id = this.#newId()
    this.#ids.set(page, id)
    this.#current ??= page
    this.#record({ type: 'tab_opened', tab: id, url: page.url() })
    if (this.#openingCount === 0) this.#addNote(`A page opened the tab ${id}.`)
    this.#subscribe(page, id)
  }

  #subscribe(page: Page, id: string): void {
    page.on('dialog', (dialog) => this.#handleDialog(page, id, dialog))
    page.on('download', (download) => {
      const url = download.url()
      this.#record({ type: 'download', tab: id, url })
      this.#addNote(`The download of ${firstChars(url, 300)} was refused: this browser saves no files.`)
    })
    page.on('framenavigated', (frame) => {
      if (frame !== page.mainFrame()) return
      this.#record({ type: 'navigated', tab: id, url: firstChars(frame.url(), 2000) })
      const scheme = URL.parse(frame.url())?.protocol ?? 'about:'
      if (openSchemes.includes(scheme)) return
      this.#addNote(`The page of tab ${id} went to a ${scheme} address, which is not allowed.`)
      ignoreRejection(page.goto('about:blank'))
    })
    page.on('pageerror', (error) =>
      this.#record({ type: 'page_error', tab: id, message: firstChars(error.message, 1000) }),
    )
    page.on('crash', () => {
      this.#addNote(`The page of tab ${id} crashed; the tab was closed.`)
      this.#remove(page)
      ignoreRejection(page.close())
    })
    page.on('close', () => {
      if (this.#remove(page)) this.#addNote(`The tab ${id} was closed by its page.`)
    })
  }

  #handleDialog(page: Page, id: string, dialog: Dialog): void {
    const type = dialog.type()
    this.#record({ type: 'dialog', tab: id, dialog: type, message: firstChars(dialog.message(), 1000) })
    const since = Date.now() - dialogMs
    const recent = [...(this.#dialogs.get(page) ?? []).filter((moment) => moment > since), Date.now()]
    this.#dialogs.set(page, recent)
    if (recent.length > maxDialogs) {
      if (this.#remove(page)) this.#addNote(`The tab ${id} was closed: its page opened dialogs without end.`)
      ignoreRejection(page.close())
      return
    }
    // Dismissing this dialog would cancel leaving the page.
    if (type === 'beforeunload') {
      ignoreRejection(dialog.accept())
      return
    }
    const message = firstChars(dialog.message(), 500)
    this.#addNote(`The page showed a dialog (${type}), which was dismissed: ${message}`)
    ignoreRejection(dialog.dismiss())
  }

  #remove(page: Page): boolean {
    const id = this.#ids.get(page)
    if (id === undefined) return false
    this.#ids.delete(page)
    this.#dialogs.delete(page)
    if (this.#current === page) this.#current = [...this.#ids.keys()].at(-1)
    this.#record({ type: 'tab_closed', tab: id })
    return true
  }

  #addNote(text: string): void {
    this.#notes.set(text, (this.#notes.get(text) ?? 0) + 1)
    if (this.#notes.size <= maxNotes) return
    // Drop the oldest note.
    const [[oldest, times] = ['', 0]] = this.#notes
    this.#notes.delete(oldest)
    this.#droppedNotes += times
  }

  #newId(): string {
    // Ids are not reused soon, so that a closed tab is not confused with another one.
    if (this.#usedIds.size > 20_000) this.#usedIds.clear()
    let id: string
    do id = randomBytes(2).toString('hex')
    while (this.#usedIds.has(id) || this.get(id) !== undefined)
    this.#usedIds.add(id)
    return id
  }
}

export async function pageTitle(page: Page): Promise<string> {
  return firstChars((await valueWithin(titleMs, page.title())) ?? '', 300)
}

function ignoreRejection(promise: Promise<unknown>): void {
  promise.catch(() => {})
}
