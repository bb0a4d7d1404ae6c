import { Worker } from 'node:worker_threads'
import { Mutex } from '@slipway/shared/async'

/** Foreign data could not be read, or not within the limits of its thread. */
export class ReadingLimitError extends Error {
  override readonly name = 'ReadingLimitError'
}

export interface ReadingLimits {
  readonly deadlineMs: number
  /** Of its objects; its buffers may take as much again. */
  readonly maxHeapMb: number
  /** A thread without work ends after this time. */
  readonly restMs: number
}

interface ReadingThreadOptions extends ReadingLimits {
  readonly name: string
  /** The file of the thread: a message in, its result out. An error ends it. */
  readonly worker: URL
}

/** Between looks at the buffers of the thread, which the limit of its heap does not hold. */
const bufferCheckMs = 100
const memoryText = 'it needs too much memory to be read'
const mebibyte = 1024 * 1024

/**
 * Reads foreign data on its own thread, one at a time. Some kilobytes can take minutes or gigabytes; on the
 * main thread they would stop the server. The thread starts with the first message, and ends at rest, at the
 * deadline and when its memory is full.
 */
export class ReadingThread<Input, Output> {
  readonly #options: ReadingThreadOptions
  readonly #mutex = new Mutex()
  #worker: Worker | undefined
  #pending: PromiseWithResolvers<Output> | undefined
  #rest: NodeJS.Timeout | undefined

  constructor(options: ReadingThreadOptions) {
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#worker !== undefined
  }

  /** Rejects with a `ReadingLimitError`, and when the signal aborts. */
  async read(input: Input, signal: AbortSignal): Promise<Output> {
    return await this.#mutex.runExclusive(() => this.#read(input, signal))
  }

  async #read(input: Input, signal: AbortSignal): Promise<Output> {
    signal.throwIfAborted()
    clearTimeout(this.#rest)
    const { deadlineMs, maxHeapMb, restMs } = this.#options
    this.#worker ??= this.#start()
    const worker = this.#worker
    worker.ref()
    const pending = Promise.withResolvers<Output>()
    this.#pending = pending
    const onAbort = () => pending.reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    const deadline = setTimeout(
      () => pending.reject(new ReadingLimitError(`it could not be read within ${deadlineMs / 1000} seconds`)),
      deadlineMs,
    )
    const bufferCheck = setInterval(async () => {
      const memory = await worker.getHeapStatistics().catch(() => undefined)
      if ((memory?.external_memory ?? 0) > maxHeapMb * mebibyte)
        pending.reject(new ReadingLimitError(memoryText))
    }, bufferCheckMs)
    worker.postMessage(input)
    try {
      const output = await pending.promise
      worker.unref()
      this.#rest = setTimeout(() => this.#end(), restMs).unref()
      return output
    } catch (error) {
      this.#end()
      throw error
    } finally {
      clearTimeout(deadline)
      clearInterval(bufferCheck)
      signal.removeEventListener('abort', onAbort)
    }
  }

  #start(): Worker {
    const { worker: file, maxHeapMb, name } = this.#options
    const worker = new Worker(file, {
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb, maxYoungGenerationSizeMb: 32 },
      execArgv: [],
      env: {},
      name,
    })
    const fail = (reason: string) => {
      if (this.#worker === worker) this.#pending?.reject(new ReadingLimitError(reason))
    }
    // A thread that was ended may have answered: its answer is not that of the next message.
    worker.on('message', (output: Output) => {
      if (this.#worker === worker) this.#pending?.resolve(output)
    })
    worker.on('error', () => fail(memoryText))
    worker.on('exit', () => fail('it could not be read'))
    return worker
  }

  #end(): void {
    const worker = this.#worker
    this.#worker = undefined
    void worker?.terminate()
  }
}
