import { Worker } from 'node:worker_threads'

/** What a checkpoint left of the write-ahead log. */
export interface CheckpointResult {
  readonly frames: number
  /** Whether no reader held any of it up. */
  readonly isWhole: boolean
}

interface Response extends CheckpointResult {
  readonly id: number
  /** Of SQLite. */
  readonly error?: { readonly message: string; readonly errcode?: number }
}

/**
 * RESTART and TRUNCATE write the first frame of the next log, so that no commit syncs its header; TRUNCATE
 * gives the space of this one back before. After them other connections read all their pages again. After
 * PASSIVE, which leaves the log as it is, they keep them.
 */
export type CheckpointMode = 'PASSIVE' | 'RESTART' | 'TRUNCATE'

export interface CheckpointRequest {
  readonly path: string
  /** Device and inode of the database, which may be another one when the thread opens it. */
  readonly file: string
  readonly mode: CheckpointMode
}

/** An idle thread ends after this time, to free its memory. */
const idleMs = 30_000

/** The thread that moves write-ahead logs of this process into their databases. It starts on demand. */
class CheckpointThread {
  readonly #pending = new Map<number, PromiseWithResolvers<CheckpointResult>>()
  #worker: Worker | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #lastId = 0

  /**
   * Nothing else may write to the database meanwhile. Rejects with an error of SQLite, or of the thread,
   * without a code of SQLite.
   */
  async run(request: CheckpointRequest): Promise<CheckpointResult> {
    const worker = this.start()
    clearTimeout(this.#idleTimer)
    const id = ++this.#lastId
    const pending = Promise.withResolvers<CheckpointResult>()
    this.#pending.set(id, pending)
    worker.ref()
    worker.postMessage({ ...request, id })
    return await pending.promise
  }

  /** Unless it runs. It keeps the process alive only while it works. */
  start(): Worker {
    if (this.#worker !== undefined) return this.#worker
    const worker = new Worker(new URL('./checkpoint-worker.js', import.meta.url), {
      execArgv: [],
      name: 'checkpoints',
    })
    worker.on('message', (response: Response) => this.#settle(worker, response))
    worker.on('error', (error) => this.#end(worker, error))
    worker.on('exit', () => this.#end(worker, new Error('The thread of checkpoints has stopped')))
    worker.unref()
    this.#worker = worker
    this.#startIdleTimer(worker)
    return worker
  }

  #settle(worker: Worker, { id, frames, isWhole, error }: Response): void {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    if (this.#pending.size === 0) {
      worker.unref()
      this.#startIdleTimer(worker)
    }
    if (error === undefined) pending?.resolve({ frames, isWhole })
    else pending?.reject(Object.assign(new Error(error.message), error))
  }

  #startIdleTimer(worker: Worker): void {
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => {
      this.#worker = undefined
      void worker.terminate()
    }, idleMs).unref()
  }

  #end(worker: Worker, cause: unknown): void {
    if (this.#worker !== worker) return
    this.#worker = undefined
    for (const { reject } of this.#pending.values()) reject(cause)
    this.#pending.clear()
  }
}

const thread = new CheckpointThread()

/** `CheckpointThread.run` of the thread that all databases share. */
export function checkpointInThread(request: CheckpointRequest): Promise<CheckpointResult> {
  return thread.run(request)
}

/** Its start takes as long as several checkpoints: it begins before the first one is due. */
export function startCheckpointThread(): void {
  thread.start()
}
