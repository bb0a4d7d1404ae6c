import type { Secrets } from '@slipway/agent'
import type { BashEventStore, BashOutputDraft, StoredCommand } from './event-store.ts'
import { OutputChunks } from './output-chunks.ts'

/** Delay before output is stored; grows with the number of pieces, which limits that number. */
const flushDelayMs = 1_000

/** How a command ended; the notice is appended to its standard error. */
export interface CommandOutcome {
  readonly exitCode: number
  readonly notice: string | undefined
}

interface OutputRecorderOptions {
  readonly command: StoredCommand
  readonly secrets: Secrets
  readonly maxOutputBytes: number
}

/** Stores the output of a running command as events. */
export class OutputRecorder {
  readonly #events: BashEventStore
  readonly #options: OutputRecorderOptions
  readonly #chunks: OutputChunks
  #order = 0
  #timer: NodeJS.Timeout | undefined
  /** Resolves when all pieces so far are stored. */
  #writeQueue: Promise<void> = Promise.resolve()
  #droppedBytes = 0
  #storedBytes = 0
  #isFull = false

  constructor(events: BashEventStore, options: OutputRecorderOptions) {
    this.#events = events
    this.#options = options
    this.#chunks = new OutputChunks(options.secrets)
  }

  /** Adds output. A returned promise is back-pressure: wait for it before adding more. It never rejects. */
  add(stream: 'stdout' | 'stderr', bytes: Buffer): Promise<void> | undefined {
    if (this.#isFull) {
      this.#droppedBytes += bytes.length
      return undefined
    }
    this.#chunks.add(stream, bytes)
    const full = this.#chunks.takeFull()
    if (full.length > 0) return this.#write(full)
    if (!this.#chunks.isEmpty) this.#scheduleFlush()
    return undefined
  }

  /** Stores the rest of the output and the end of the command. */
  async end({ exitCode, notice }: CommandOutcome): Promise<void> {
    clearTimeout(this.#timer)
    this.#chunks.end()
    await this.#write(this.#chunks.takeFull())
    const { stdout, stderr } = this.#chunks.takeRest()
    const dropped = this.#droppedBytes > 0 ? `${this.#droppedBytes} bytes of output were not kept.` : ''
    const texts = [stderr ?? '', dropped, this.#options.secrets.redact(notice ?? '')].filter(Boolean)
    const last = { exit_code: exitCode, stdout, stderr: texts.join('\n') || null }
    await this.#events.addOutput(this.#options.command, this.#order, last)
  }

  #scheduleFlush(): void {
    this.#timer ??= setTimeout(() => this.#flush(), flushDelayMs * Math.max(1, this.#order / 60))
  }

  #flush(): void {
    this.#timer = undefined
    const rest = this.#chunks.takeRest()
    if (rest.stdout !== null || rest.stderr !== null) void this.#write([rest])
  }

  #write(drafts: readonly BashOutputDraft[]): Promise<void> {
    const { command, maxOutputBytes } = this.#options
    this.#writeQueue = this.#writeQueue.then(async () => {
      for (const draft of drafts) {
        const storedBytes = this.#isFull
          ? undefined
          : await this.#events.addOutput(command, this.#order, draft)
        if (storedBytes === undefined) {
          this.#drop(draft)
          continue
        }
        this.#order++
        this.#storedBytes += storedBytes
        if (this.#storedBytes > maxOutputBytes) this.#isFull = true
      }
    })
    return this.#writeQueue
  }

  #drop({ stdout, stderr }: BashOutputDraft): void {
    this.#isFull = true
    this.#droppedBytes += Buffer.byteLength((stdout ?? '') + (stderr ?? ''))
  }
}
