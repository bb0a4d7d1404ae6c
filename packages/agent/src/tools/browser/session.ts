import { dirname, join } from 'node:path'
import type { Observation } from '@slipway/protocol'
import { unlessAborted } from '../core/race-abort.ts'
import { type ToolContext, text } from '../core/tool.ts'
import { truncate } from '../core/truncate.ts'
import { type Body, failed, type Limits, type Opened, type Outcome, sentenceOf } from './command.ts'
import { launchBrowser } from './launch.ts'
import { type Happening, Recording } from './recording.ts'
import { Tabs } from './tabs.ts'

/** Of an observation's text. */
const maxChars = 50_000
const maxTimeouts = 3
const installHint =
  'No Chromium or Chrome was found on this machine. Install one (for example with "apt-get install chromium") or name it in the parameter executable_path of the browser tools; it is not downloaded by itself.'

/**
 * The browser of one conversation. It starts with the first action. Each action is limited in time: after two in a row
 * that took too long the limit is short, and after the third the browser is given up and a new one starts with the next
 * action. One that is aborted is left to itself; the browser stays.
 */
export class Session {
  readonly #context: ToolContext
  readonly #limits: Limits
  readonly #executable: string | undefined
  #opening: Promise<Opened | undefined> | undefined
  readonly #closings = new Set<Promise<void>>()
  #timeouts = 0
  #recording: Recording | undefined
  #isClosed = false

  constructor(context: ToolContext, limits: Limits, executable: string | undefined) {
    this.#context = context
    this.#limits = limits
    this.#executable = executable
  }

  /** Does one action, which is told to a recording as `what`. Never rejects because of the browser or a page. */
  async act(what: Readonly<Record<string, unknown>>, body: Body, signal: AbortSignal): Promise<Observation> {
    signal.throwIfAborted()
    if (this.#isClosed) return this.#observation(failed('The browser is closed.'))
    const limitMs = this.#timeouts >= maxTimeouts - 1 ? this.#limits.shortMs : this.#limits.actionMs
    const timer = AbortSignal.timeout(limitMs)
    const stop = AbortSignal.any([signal, timer])
    let opened: Opened | undefined
    const work = async () => {
      opened = await this.#open()
      if (opened === undefined) return failed(installHint)
      this.#happened({ type: 'action', ...what })
      return await body(opened, stop)
    }
    try {
      const outcome = await unlessAborted(work(), stop)
      this.#timeouts = 0
      return await this.#observation(outcome, opened)
    } catch (error) {
      signal.throwIfAborted()
      const outcome = timer.aborted ? this.#tookTooLong(limitMs) : this.#broke(error, opened)
      return await this.#observation(outcome, opened)
    }
  }

  async startRecording(): Promise<Recording | undefined> {
    if (this.#recording !== undefined) return undefined
    const { secrets } = this.#context
    const directory = join(this.#context.directory, 'recordings')
    this.#recording = await Recording.start(directory, (value) => secrets.maskJson(value))
    return this.#recording
  }

  /** The recording that was going on; it is for the caller to stop it. */
  takeRecording(): Recording | undefined {
    const recording = this.#recording
    this.#recording = undefined
    return recording
  }

  /** Without what is secret. */
  mask(value: string): string {
    return this.#context.secrets.mask(value)
  }

  /** Ends the browser and what it recorded; resolves when no process of it is left. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#giveUp()
    await Promise.all([...this.#closings, this.takeRecording()?.stop()])
  }

  #open(): Promise<Opened | undefined> {
    this.#opening ??= this.#start().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    return this.#opening
  }

  async #start(): Promise<Opened | undefined> {
    const browser = await launchBrowser(this.#context.workspace, this.#executable)
    if (browser === undefined) {
      // It may be installed meanwhile.
      this.#opening = undefined
      return undefined
    }
    const tabs = new Tabs(browser.context, (happening) => this.#happened(happening))
    return { browser, tabs, state: undefined }
  }

  #happened(happening: Happening): void {
    this.#recording?.add(happening)
  }

  #giveUp(): void {
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

  #tookTooLong(limitMs: number): Outcome {
    this.#timeouts++
    const sentence = `The action took longer than ${limitMs / 1000} seconds and was given up.`
    if (this.#timeouts < maxTimeouts) return failed(sentence)
    this.#timeouts = 0
    this.#giveUp()
    return failed(
      `${sentence} It was the third in a row, so the browser session was reset: all tabs, cookies and local storage are gone, and a new browser starts with the next action.`,
    )
  }

  #broke(error: unknown, opened: Opened | undefined): Outcome {
    this.#timeouts = 0
    if (opened === undefined) return failed(`The browser could not be started: ${sentenceOf(error)}`)
    if (opened.browser.isConnected()) return failed(sentenceOf(error))
    this.#giveUp()
    return failed(
      'The browser ended unexpectedly: all tabs, cookies and local storage are gone, and a new browser starts with the next action.',
    )
  }

  async #observation(outcome: Outcome, opened?: Opened): Promise<Observation> {
    const { secrets, directory } = this.#context
    await secrets.resolve()
    const whole = secrets.mask(withNotes(outcome, opened?.tabs.takeNotes() ?? []))
    const cut = await truncate(whole, { directory, tool: 'browser', maxChars })
    const saved = outcome.saved ?? (cut.savedTo === undefined ? undefined : dirname(cut.savedTo))
    return {
      kind: 'BrowserObservation',
      content: [text(cut.text)],
      is_error: outcome.isError ?? false,
      ...(outcome.screenshot === undefined ? {} : { screenshot_data: outcome.screenshot }),
      ...(saved === undefined ? {} : { full_output_save_dir: saved }),
    }
  }
}

function withNotes({ text, isJson }: Outcome, notes: readonly string[]): string {
  if (notes.length === 0) return text
  if (isJson) return text.replace(/\n?\}$/, () => `,\n"notes": ${JSON.stringify(notes)}\n}`)
  return [text, ...notes].join('\n')
}
