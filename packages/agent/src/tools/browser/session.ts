import { dirname, join } from 'node:path'
import type { Observation } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import { readExistingFile } from '../core/file-access.ts'
import { outputLimits } from '../core/output-limits.ts'
import { type ToolContext, textBlock } from '../core/tool.ts'
import { truncateOutput } from '../core/truncate.ts'
import {
  type ActiveBrowser,
  type BrowserCommand,
  type BrowserResult,
  failedResult,
  playwrightErrorText,
  type TimeLimits,
} from './command.ts'
import { launchBrowser } from './launch.ts'
import { Recording } from './recording.ts'
import { Tabs } from './tabs.ts'

const maxTimeouts = 3
const offText = 'The browser is switched off on this server. Continue without it.'
const installHint =
  'No Chromium or Chrome was found on this machine. Install one (for example with "apt-get install chromium") or name it in the parameter executable_path of the browser tools; it is not downloaded on its own.'

/**
 * The browser of one conversation, started by the first action. Each action has a time limit: after two
 * time-outs in a row a shorter one, and after a third time-out the browser is closed and the next action
 * starts a new one. An aborted action is abandoned; the browser stays.
 */
export class BrowserSession {
  readonly #context: ToolContext
  readonly #limits: TimeLimits
  readonly #executable: string | undefined
  #opening: Promise<ActiveBrowser | undefined> | undefined
  readonly #closings = new Set<Promise<void>>()
  #timeouts = 0
  #recording: Recording | undefined
  #isClosed = false

  constructor(context: ToolContext, limits: TimeLimits, executable: string | undefined) {
    this.#context = context
    this.#limits = limits
    this.#executable = executable
  }

  /** A file that the tools of the conversation may read; rejects with a ToolError. */
  async readFile(path: string): Promise<Buffer> {
    const { bytes } = await readExistingFile(await this.#context.workspace.resolve(path, 'read'))
    return bytes
  }

  /** Runs one action and records it. Never rejects because of the browser or a page. */
  async run(
    action: Readonly<Record<string, unknown>>,
    command: BrowserCommand,
    signal: AbortSignal,
  ): Promise<Observation> {
    signal.throwIfAborted()
    if (this.#isClosed) return this.#observation(failedResult('The browser is closed.'))
    const limitMs = this.#timeouts >= maxTimeouts - 1 ? this.#limits.shortMs : this.#limits.actionMs
    const timer = AbortSignal.timeout(limitMs)
    const stopSignal = AbortSignal.any([signal, timer])
    let opened: ActiveBrowser | undefined
    const work = async () => {
      opened = await this.#open()
      if (opened === undefined) return failedResult(this.#context.browser?.isOff ? offText : installHint)
      this.#recording?.add({ type: 'action', ...action })
      return await command(opened, stopSignal)
    }
    try {
      const outcome = await raceAbort(work(), stopSignal)
      this.#timeouts = 0
      return await this.#observation(outcome, opened)
    } catch (error) {
      signal.throwIfAborted()
      const outcome = timer.aborted ? this.#timeoutResult(limitMs) : this.#failureResult(error, opened)
      return await this.#observation(outcome, opened)
    }
  }

  async startRecording(): Promise<Recording | undefined> {
    if (this.#recording !== undefined) return undefined
    const { secrets, directory } = this.#context
    const redact = <V>(value: V) => secrets.redactJson(value)
    this.#recording = await Recording.start(join(directory, 'recordings'), redact)
    return this.#recording
  }

  /** Removes the current recording; the caller stops it. */
  detachRecording(): Recording | undefined {
    const recording = this.#recording
    this.#recording = undefined
    return recording
  }

  redact(value: string): string {
    return this.#context.secrets.redact(value)
  }

  /** Ends the browser and the recording; resolves when no process of it is left. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#discardBrowser()
    await Promise.all([...this.#closings, this.detachRecording()?.stop()])
  }

  #open(): Promise<ActiveBrowser | undefined> {
    this.#opening ??= this.#start().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    return this.#opening
  }

  async #start(): Promise<ActiveBrowser | undefined> {
    const { workspace, browser: search } = this.#context
    const browser = await launchBrowser(workspace, this.#executable, search)
    if (browser === undefined) {
      // A browser may be installed later.
      this.#opening = undefined
      return undefined
    }
    const tabs = new Tabs(browser.context, (event) => this.#recording?.add(event))
    return { browser, tabs, limits: this.#limits, pageState: undefined }
  }

  #discardBrowser(): void {
    const opening = this.#opening
    this.#opening = undefined
    if (opening === undefined) return
    const closing = opening.then(
      (opened) => opened?.browser.close(),
      () => undefined,
    )
    this.#closings.add(closing)
    closing.finally(() => this.#closings.delete(closing)).catch(() => {})
  }

  #timeoutResult(limitMs: number): BrowserResult {
    this.#timeouts++
    const sentence = `The action took longer than ${limitMs / 1000} seconds and was given up.`
    if (this.#timeouts < maxTimeouts) return failedResult(sentence)
    this.#timeouts = 0
    this.#discardBrowser()
    return failedResult(
      `${sentence} It was the third in a row, so the browser session was reset: all tabs, cookies and local storage are gone, and a new browser starts with the next action.`,
    )
  }

  #failureResult(error: unknown, opened: ActiveBrowser | undefined): BrowserResult {
    this.#timeouts = 0
    if (opened === undefined)
      return failedResult(`The browser could not be started: ${playwrightErrorText(error)}`)
    if (opened.browser.isConnected()) return failedResult(playwrightErrorText(error))
    this.#discardBrowser()
    return failedResult(
      'The browser ended unexpectedly: all tabs, cookies and local storage are gone, and a new browser starts with the next action.',
    )
  }

  async #observation(outcome: BrowserResult, opened?: ActiveBrowser): Promise<Observation> {
    const { secrets, directory } = this.#context
    await secrets.resolveAll()
    const fullText = secrets.redact(withNotes(outcome, opened?.tabs.takeNotes() ?? []))
    const truncated = await truncateOutput(fullText, {
      directory,
      tool: 'browser',
      maxChars: outputLimits.browser,
    })
    const saved = outcome.saved ?? (truncated.savedTo === undefined ? undefined : dirname(truncated.savedTo))
    return {
      kind: 'BrowserObservation',
      content: [textBlock(truncated.text)],
      is_error: outcome.isError ?? false,
      ...(outcome.screenshot !== undefined && { screenshot_data: outcome.screenshot }),
      ...(saved !== undefined && { full_output_save_dir: saved }),
    }
  }
}

function withNotes({ text, isJson }: BrowserResult, notes: readonly string[]): string {
  if (notes.length === 0) return text
  if (isJson) return text.replace(/\n?\}$/, () => `,\n"notes": ${JSON.stringify(notes)}\n}`)
  return [text, ...notes].join('\n')
}
