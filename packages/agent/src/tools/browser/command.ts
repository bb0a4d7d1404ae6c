import { errorText, firstChars } from '@slipway/shared/text'
import type { Frame, Page } from 'playwright-core'
import type { BrowserHandle } from './launch.ts'
import type { PageElement } from './page-script.ts'
import type { Tabs } from './tabs.ts'

/** Of an action, of an action after two that timed out, and until a page begins to answer. */
export type TimeLimits = Readonly<Record<'actionMs' | 'shortMs' | 'navigationMs', number>>

/** The result of a browser action; `text` is for the model. */
export interface BrowserResult {
  readonly text: string
  readonly isError?: boolean
  /** JPEG, base64. */
  readonly screenshot?: string | undefined
  /** A directory with more output. */
  readonly saved?: string
  /** The text is a JSON object; notes become its member `notes`. */
  readonly isJson?: boolean
}

/** A failed action; the sentence is for the model. */
export function failedResult(sentence: string): BrowserResult {
  return { text: sentence, isError: true }
}

/** A snapshot of a page. Elements are identified by their index in `elements`. */
export interface PageState {
  readonly id: string
  readonly page: Page
  readonly elements: readonly { readonly frame: Frame; readonly at: number; readonly element: PageElement }[]
}

/** An open browser, for actions. */
export interface ActiveBrowser {
  readonly browser: BrowserHandle
  readonly tabs: Tabs
  readonly limits: TimeLimits
  /** The last snapshot of a page. */
  pageState: PageState | undefined
}

export type BrowserCommand = (opened: ActiveBrowser, signal: AbortSignal) => Promise<BrowserResult>

/** The message of a library error, without function name and call log. */
export function playwrightErrorText(error: unknown): string {
  const message = errorText(error)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the library colours its messages for terminals
  const plain = message.replace(/\x1b\[[0-9;]*m/g, '')
  return firstChars((plain.split('\n')[0] ?? '').replace(/^[a-zA-Z]+\.[a-zA-Z]+: /, ''), 1000)
}
