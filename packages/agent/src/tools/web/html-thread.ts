import { Worker } from 'node:worker_threads'
import { Mutex } from '@slipway/shared/async'
import type { htmlText } from './html-text.ts'

/** The page could not be read within the limits of its thread. */
export class HtmlLimitError extends Error {
  override readonly name = 'HtmlLimitError'
}

interface HtmlThreadOptions {
  readonly deadlineMs: number
  readonly maxHeapMb: number
  /** A thread without work ends after this time. */
  readonly restMs: number
}

/**
 * Reads foreign pages on its own thread, one at a time. A page of some kilobytes can take minutes or
 * gigabytes; on the main thread it would stop the server. The thread starts with the first page, and ends at
 * rest, at the deadline and when its memory is full.
 */
export class HtmlThread {
  readonly #options: HtmlThreadOptions
  readonly #mutex = new Mutex()
  #worker: Worker | undefined
  #pending: PromiseWithResolvers<string> | undefined
  #rest: NodeJS.Timeout | undefined

  constructor(options: HtmlThreadOptions) {
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#worker !== undefined
  }

  /** The text of a page. Rejects with an `HtmlLimitError`, and when the signal aborts. */
  async read(page: Parameters<typeof htmlText>[0], signal: AbortSignal): Promise<string> {
    return await this.#mutex.runExclusive(() => this.#read(page, signal))
  }

  async #read(page: Parameters<typeof htmlText>[0], signal: AbortSignal): Promise<string> {
    signal.throwIfAborted()
    clearTimeout(this.#rest)
    const { deadlineMs, restMs } = this.#options
    this.#worker ??= this.#start()
    const worker = this.#worker
    worker.ref()
    const pending = Promise.withResolvers<string>()
    this.#pending = pending
    const onAbort = () => pending.reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    const deadline = setTimeout(
      () => pending.reject(new HtmlLimitError(`it could not be read within ${deadlineMs / 1000} seconds`)),
      deadlineMs,
    )
    worker.postMessage(page)
    try {
      const text = await pending.promise
      worker.unref()
      this.#rest = setTimeout(() => this.#end(), restMs).unref()
      return text
    } catch (error) {
      this.#end()
      throw error
    } finally {
      clearTimeout(deadline)
      signal.removeEventListener('abort', onAbort)
    }
  }

  #start(): Worker {
    const worker = new Worker(new URL('./html-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: this.#options.maxHeapMb, maxYoungGenerationSizeMb: 32 },
      execArgv: [],
      env: {},
      name: 'html',
    })
    const fail = (reason: string) => {
      if (this.#worker === worker) this.#pending?.reject(new HtmlLimitError(reason))
    }
    worker.on('message', (text: string) => this.#pending?.resolve(text))
    worker.on('error', () => fail('it needs too much memory to be read'))
    worker.on('exit', () => fail('it could not be read'))
    return worker
  }

  #end(): void {
    const worker = this.#worker
    this.#worker = undefined
    void worker?.terminate()
  }
}
