import { join } from 'node:path'
import { makeDirectory, mkdir, readdir, writeFile } from '@slipway/shared/tool-files'

/** An event of the browser; the recording adds the time. */
export interface RecordedEvent {
  readonly type: 'action' | 'navigated' | 'tab_opened' | 'tab_closed' | 'dialog' | 'download' | 'page_error'
  readonly tab?: string
  readonly [member: string]: unknown
}

const batchSize = 200
const batchMs = 2000
/** Further events are only counted: a page can cause any number. */
const maxRecordedEvents = 20_000

/**
 * Records the events of a browser in files: `<directory>/<n>/1.json`, `2.json` and so on, each a JSON array
 * of `{at, type, tab?, ...}` in order of time, written with a delay of at most two seconds.
 */
export class Recording {
  readonly directory: string
  readonly #redact: <V>(value: V) => V
  readonly #timer: NodeJS.Timeout
  #batch: unknown[] = []
  #files = 0
  #count = 0
  #writing: Promise<void> = Promise.resolve()
  #failure: string | undefined

  private constructor(directory: string, redact: <V>(value: V) => V) {
    this.directory = directory
    this.#redact = redact
    this.#timer = setInterval(() => this.#flush(), batchMs).unref()
  }

  /** Starts a recording in the next free numbered folder below `directory`. */
  static async start(directory: string, redact: <V>(value: V) => V): Promise<Recording> {
    await makeDirectory(directory, 0o700)
    const numbers = (await readdir(directory)).map(Number).filter(Number.isInteger)
    const ownDirectory = join(directory, String(Math.max(0, ...numbers) + 1))
    await mkdir(ownDirectory, { mode: 0o700 })
    return new Recording(ownDirectory, redact)
  }

  add(event: RecordedEvent): void {
    if (++this.#count > maxRecordedEvents) return
    this.#batch.push({ at: new Date().toISOString(), ...event })
    if (this.#batch.length >= batchSize) this.#flush()
  }

  /** Writes the remaining events. `failure`: the first error of writing a file. */
  async stop() {
    clearInterval(this.#timer)
    this.#flush()
    await this.#writing
    const recordedCount = Math.min(this.#count, maxRecordedEvents)
    const dropped = this.#count - recordedCount
    return { recordedCount, dropped, files: this.#files, failure: this.#failure }
  }

  #flush(): void {
    if (this.#batch.length === 0) return
    const text = `${JSON.stringify(this.#redact(this.#batch), undefined, 1)}\n`
    const file = join(this.directory, `${++this.#files}.json`)
    this.#batch = []
    this.#writing = this.#writing
      .then(() => writeFile(file, text, { mode: 0o600 }))
      .catch((error: Error) => {
        this.#failure ??= error.message
      })
  }
}
