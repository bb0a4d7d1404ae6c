import { readText } from '@slipway/shared/async'
import { parseRawPage } from '../parsing/raw-page.ts'
import { print, printNote } from './terminal.ts'

/** Prints a paged list: raw items, one a line, or a table. */
export async function listPages(list: {
  /** Requests the page with this id; the first one without. */
  open(pageId: string | undefined): Promise<Response>
  table(items: readonly string[], hasHead: boolean): string | Promise<string>
  readonly isJson: boolean
  /** Walk to the end; otherwise one page is printed. */
  readonly all: boolean
  /** Printed for an empty list. */
  readonly nothing: string
  /** How to read the page with this id; by default only that `--all` reads them all. */
  more?(pageId: string): string
  /** The first page; the beginning unless given. */
  readonly pageId?: string | undefined
}): Promise<void> {
  let { pageId } = list
  let isFirst = true
  do {
    const response = await list.open(pageId)
    const { items, next_page_id } = parseRawPage(await readText(response))
    if (list.isJson) await print(items.map((item) => `${item}\n`).join(''))
    else if (items.length === 0 && isFirst) printNote(list.nothing)
    else await print(await list.table(items, isFirst))
    isFirst = false
    pageId = next_page_id ?? undefined
  } while (list.all && pageId !== undefined)
  if (pageId !== undefined) printNote(`There are more: ${list.more?.(pageId) ?? '--all'}`)
}
