import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectory } from '@slipway/shared/fs'

/** One thing that happened, without a moment: the recording gives it one. */
export interface RecordedEvent {
  readonly type: 'action' | 'navigated' | 'tab_opened' | 'tab_closed' | 'dialog' | 'download' | 'page_error'
  readonly tab?: string
  readonly [member: string]: unknown
}

const batchSize = 200
const batchMs = 2000
/** What happens after that many is counted and not kept: a page can make things happen without end. */
const maxRecordedEvents = 20_000

/**
 * What happens in a browser, kept in files: `<directory>/<n>/1.json`, `2.json` and so on, each a JSON array of
 * `{at, type, tab?, ...}` in order of time. Files are written as it goes on, at most two seconds behind.
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

  /** Begins a recording in the next free number below `directory`. `mask` takes secrets out of what is kept. */
  static async start(directory: string, redact: <V>(value: V) => V): Promise<Recording> {
    await makeDirectory(directory)
    const numbers = (await readdir(directory)).map(Number).filter(Number.isInteger)
    const ownDirectory = join(directory, String(Math.max(0, ...numbers) + 1))
    await mkdir(ownDirectory)
    return new Recording(ownDirectory, redact)
  }

  add(event: RecordedEvent): void {
    if (++this.#count > maxRecordedEvents) return
    this.#batch.push({ at: new Date().toISOString(), ...event })
    if (this.#batch.length >= batchSize) this.#flush()
  }

  /** Writes what is left. `failure`: what kept a file from being written. */
  async stop(): Promise<{
    recordedCount: number
    dropped: number
    files: number
    failure: string | undefined
  }> {
    clearInterval(this.#timer)
    this.#flush()
    await this.#writing
    const recordedCount = Math.min(this.#count, maxRecordedEvents)
    return {
      recordedCount: recordedCount,
      dropped: this.#count - recordedCount,
      files: this.#files,
      failure: this.#failure,
    }
  }

  #flush(): void {
    if (this.#batch.length === 0) return
    const text = `${JSON.stringify(this.#redact(this.#batch), undefined, 1)}\n`
    const file = join(this.directory, `${++this.#files}.json`)
    this.#batch = []
    this.#writing = this.#writing
      .then(() => writeFile(file, text))
      .catch((error: Error) => {
        this.#failure ??= error.message
      })
  }
}
