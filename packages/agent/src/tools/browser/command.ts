import type { Frame, Page } from 'playwright-core'
import type { BrowserHandle } from './launch.ts'
import type { PageElement } from './page-script.ts'
import type { Tabs } from './tabs.ts'

/** Milliseconds. */
export interface TimeLimits {
  /** Of one action. */
  readonly actionMs: number
  /** Of one action when two before it took too long. */
  readonly shortMs: number
  /** Until a page that is navigated to has begun to answer. */
  readonly navigationMs: number
}

/** What an action of the browser came to; `text` is for the model. */
export interface BrowserResult {
  readonly text: string
  readonly isError?: boolean
  /** JPEG, base64. */
  readonly screenshot?: string
  /** A directory where more is. */
  readonly saved?: string
  /** The text is JSON: what happened besides goes into it as a member `notes`. */
  readonly isJson?: boolean
}

/** An action that could not be done, in a sentence for the model. */
export function failedResult(sentence: string): BrowserResult {
  return { text: sentence, isError: true }
}

/** What was read of a page at one moment. Elements are told by their place in `elements`. */
export interface PageState {
  readonly id: string
  readonly page: Page
  readonly elements: readonly { readonly frame: Frame; readonly at: number; readonly element: PageElement }[]
}

/** A browser that is open, as actions see it. */
export interface ActiveBrowser {
  readonly browser: BrowserHandle
  readonly tabs: Tabs
  /** What was last read of a page; its elements can be named by their index. */
  pageState: PageState | undefined
}

export type BrowserCommand = (opened: ActiveBrowser, signal: AbortSignal) => Promise<BrowserResult>

/** What the library says went wrong, without the name of the function and the log of what it tried. */
export function playwrightErrorText(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the library colours its messages for terminals
  const plain = message.replace(/\x1b\[[0-9;]*m/g, '')
  return (plain.split('\n')[0] ?? '').replace(/^[a-zA-Z]+\.[a-zA-Z]+: /, '').slice(0, 1000)
}
