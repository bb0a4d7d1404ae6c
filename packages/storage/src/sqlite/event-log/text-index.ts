import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { Log } from '@slipway/protocol'
import type { Selection } from './event-search.ts'
import { positionsPerConversation } from './schema.ts'
import type { TextAnswer, TextRequest } from './text-worker.ts'

export interface TextIndexOptions {
  readonly logPath: string
  readonly indexPath: string
  readonly log: Log
}

type Question<R = TextRequest> = R extends TextRequest ? Omit<R, 'id'> : never

interface Waiting {
  resolve(result: unknown): void
  reject(error: Error): void
}

/** A thread that was asked nothing for this long is let go, for its memory. */
const idleMs = 60_000
/**
 * The index is told of messages when none has come for this long, or the oldest waits for the longer time: its writing would
 * slow down the syncs of a log that is just being appended to. Searches read what it does not know yet.
 */
const gatherMs = 250
const maxGatherMs = 1_000

/**
 * Finds messages by their text, and counts what filters match, in a thread of its own, which starts at the first need.
 * When the thread dies what was asked of it is rejected with a plain Error and the next question starts another.
 */
export class TextIndex {
  readonly #options: TextIndexOptions
  readonly #waiting = new Map<number, Waiting>()
  readonly #expected = new Set<number>()
  #gathering: NodeJS.Timeout | undefined
  /** When the first and the last of the expected messages came. */
  #gathered = { firstMs: 0, lastMs: 0 }
  #idling: NodeJS.Timeout | undefined
  #worker: Worker | undefined
  #lastId = 0
  #isClosed = false

  constructor(options: TextIndexOptions) {
    this.#options = options
  }

  /** A conversation has got new messages. */
  expect(ordinal: number): void {
    this.#expected.add(ordinal)
    this.#gathered.lastMs = performance.now()
    if (this.#gathering !== undefined) return
    this.#gathered.firstMs = this.#gathered.lastMs
    this.#gather()
  }

  /** Positions of the messages of a selection that have the needle in them. */
  async search(selection: Selection, needle: string): Promise<number[]> {
    const rows = await this.#ask({ kind: 'search', selection, needle })
    return Array.isArray(rows) ? rows.map((row) => Number(row) % positionsPerConversation) : []
  }

  async count(selection: Selection, needle: string | undefined): Promise<number> {
    return Number(await this.#ask({ kind: 'count', selection, needle }))
  }

  /** Removes a conversation from the index. */
  async forget(ordinal: number): Promise<void> {
    this.#expected.delete(ordinal)
    if (this.#worker === undefined && !existsSync(this.#options.indexPath)) return
    await this.#ask({ kind: 'forget', ordinal })
  }

  /** Resolves when everything that is durable now is indexed. */
  async settled(): Promise<void> {
    this.#tell()
    await this.#ask({ kind: 'settle' })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#gathering)
    clearTimeout(this.#idling)
    await this.#worker?.terminate()
  }

  #gather(): void {
    this.#gathering = setTimeout(() => {
      const now = performance.now()
      const { firstMs, lastMs } = this.#gathered
      if (now - lastMs < gatherMs && now - firstMs < maxGatherMs) this.#gather()
      else this.#tell()
    }, gatherMs).unref()
  }

  #tell(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    if (this.#expected.size === 0 || this.#isClosed) return
    const ordinals = [...this.#expected]
    this.#expected.clear()
    this.#begin({ kind: 'index', ordinals })
  }

  /** Asks for work that nobody waits for, but that the thread is kept for. */
  #begin(question: Question): void {
    this.#ask(question).catch((error: unknown) => {
      if (!this.#isClosed)
        this.#options.log('error', 'messages could not be indexed', { error: String(error) })
    })
  }

  #ask(question: Question): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new Error('the text index is closed'))
    const worker = this.#worker ?? this.#start()
    const id = ++this.#lastId
    clearTimeout(this.#idling)
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      worker.ref()
      worker.postMessage({ ...question, id })
    })
  }

  #start(): Worker {
    const { logPath, indexPath } = this.#options
    const worker = new Worker(new URL('./text-worker.ts', import.meta.url), {
      workerData: { logPath, indexPath },
      execArgv: [],
      name: 'text-index',
    })
    worker.on('message', (answer: TextAnswer) => this.#settle(worker, answer))
    worker.on('error', (error) => this.#fail(worker, error))
    worker.on('exit', () => this.#fail(worker, new Error('the text index was stopped')))
    this.#worker = worker
    this.#begin({ kind: 'settle' })
    return worker
  }

  #settle(worker: Worker, { id, result, error }: TextAnswer): void {
    if (id === 0) this.#options.log('error', 'messages could not be indexed', { error })
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (this.#waiting.size === 0) this.#rest(worker)
    if (error === undefined) waiting?.resolve(result)
    else waiting?.reject(new Error(`the text index failed: ${error}`))
  }

  #rest(worker: Worker): void {
    // Closing waits for the thread's end, which only a thread that is held is certain to tell.
    if (this.#isClosed) return
    worker.unref()
    clearTimeout(this.#idling)
    this.#idling = setTimeout(() => {
      this.#worker = undefined
      void worker.terminate()
    }, idleMs).unref()
  }

  #fail(worker: Worker, cause: unknown): void {
    if (this.#worker !== worker) return
    this.#worker = undefined
    for (const { reject } of this.#waiting.values()) reject(new Error('the text index has died', { cause }))
    this.#waiting.clear()
  }
}
