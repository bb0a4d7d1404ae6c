import type { Secrets } from '@slipway/agent'
import type { BashEvents, OutputDraft } from './event-store.ts'
import { OutputPieces } from './output-chunks.ts'

/** Output waits this long for more of it; longer the more pieces a command has, so that they never become too many. */
const gatherMs = 1_000

/** What one command that runs has printed, on its way into the events. */
export class BashRun {
  readonly #events: BashEvents
  readonly #options: { readonly id: string; readonly secrets: Secrets; readonly maxOutputBytes: number }
  readonly #pieces: OutputPieces
  #order = 0
  #timer: NodeJS.Timeout | undefined
  /** Resolves when all that was handed over is kept. */
  #keeping: Promise<void> = Promise.resolve()
  #droppedBytes = 0
  #isFull = false

  constructor(
    events: BashEvents,
    options: { readonly id: string; readonly secrets: Secrets; readonly maxOutputBytes: number },
  ) {
    this.#events = events
    this.#options = options
    this.#pieces = new OutputPieces(options.secrets)
  }

  /** Takes output. The promise says that it comes too fast, and resolves when there may be more; it never rejects. */
  add(stream: 'stdout' | 'stderr', bytes: Buffer): Promise<void> | undefined {
    if (this.#isFull) {
      this.#droppedBytes += bytes.length
      return undefined
    }
    this.#pieces.add(stream, bytes)
    const full = this.#pieces.full()
    if (full.length > 0) return this.#keep(full)
    if (!this.#pieces.isEmpty) this.#flushSoon()
    return undefined
  }

  /** Keeps what is left, and that the command is over. */
  async end({
    exitCode,
    notice,
  }: {
    readonly exitCode: number
    readonly notice: string | undefined
  }): Promise<void> {
    clearTimeout(this.#timer)
    this.#pieces.end()
    await this.#keep(this.#pieces.full())
    const { stdout, stderr } = this.#pieces.rest()
    const dropped = this.#droppedBytes > 0 ? `${this.#droppedBytes} bytes of output were not kept.` : ''
    const texts = [stderr ?? '', dropped, this.#options.secrets.mask(notice ?? '')].filter(
      (text) => text !== '',
    )
    const last = { exit_code: exitCode, stdout, stderr: texts.join('\n') || null }
    await this.#events.output(this.#options.id, this.#order, last)
  }

  #flushSoon(): void {
    this.#timer ??= setTimeout(() => this.#flush(), gatherMs * Math.max(1, this.#order / 60))
  }

  #flush(): void {
    this.#timer = undefined
    const rest = this.#pieces.rest()
    if (rest.stdout !== null || rest.stderr !== null) void this.#keep([rest])
  }

  #keep(drafts: readonly OutputDraft[]): Promise<void> {
    const { id, maxOutputBytes } = this.#options
    this.#keeping = this.#keeping.then(async () => {
      for (const draft of drafts) {
        if (this.#isFull) this.#drop(draft)
        else if (await this.#events.output(id, this.#order, draft)) this.#order++
        else this.#drop(draft)
        if (this.#events.sizeOf(id) > maxOutputBytes) this.#isFull = true
      }
    })
    return this.#keeping
  }

  #drop({ stdout, stderr }: OutputDraft): void {
    this.#isFull = true
    this.#droppedBytes += Buffer.byteLength((stdout ?? '') + (stderr ?? ''))
  }
}
