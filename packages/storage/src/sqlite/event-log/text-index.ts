import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type LogFunction, storageUnavailableProblem } from '@slipway/protocol'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { DamagedLogError, DamagedRowError } from '../../event-log/damage.ts'
import type { CompactedFile } from '../database/reclaim-space.ts'
import type { DurablePoint } from '../database/wal/durable-point.ts'
import type { Selection } from './event-search.ts'
import type { Compared, IndexGroup } from './index-check.ts'
import type { TextRequest, TextResponse } from './text-worker.ts'

export interface TextIndexOptions {
  readonly logPath: string
  readonly indexPath: string
  readonly log: LogFunction
  /** Of the log: nothing is indexed that a power cut could take back. */
  readonly durable: DurablePoint
}

type NewRequest<R = TextRequest> = R extends TextRequest ? Omit<R, 'id'> : never

interface PendingRequest extends PromiseWithResolvers<unknown> {
  readonly request: NewRequest
}

/** An idle thread ends after this time, to free its memory. */
const idleMs = 60_000
/** Rows are read and dropped one by one: more room would only be filled later. */
const maxYoungGenerationSizeMb = 6
/** Each start verifies the whole index: a larger one is not closed before `idleMs`. */
const maxSoonVerifiedBytes = 64 * 1024 * 1024
/** A thread that has not closed the index after this time is ended; the next one builds the index again. */
const maxCloseMs = 5_000
/**
 * Debounce: indexing starts when no message has come for `quietMs`, or the oldest has waited `maxDelayMs`,
 * because its writes slow down the syncs of appends. Searches read unindexed messages from the log.
 */
const quietMs = 250
const maxDelayMs = 1_000

/**
 * Searches message texts, and counts filtered events, in a worker thread that starts on demand. When the
 * thread dies, pending requests reject with a Problem `unavailable` and the next request starts another.
 * While it is paused, requests wait.
 */
export class TextIndex {
  readonly #options: TextIndexOptions
  readonly #pendingRequests = new Map<number, PendingRequest>()
  readonly #pendingOrdinals = new Set<number>()
  #flushTimer: NodeJS.Timeout | undefined
  /** When the first and the last unindexed message came. */
  #pendingSince = { firstMs: 0, lastMs: 0 }
  #idleTimer: NodeJS.Timeout | undefined
  #worker: Worker | undefined
  /** The end of an idle thread. */
  #ending: Promise<void> | undefined
  #lastId = 0
  #isPaused = false
  #isClosed = false

  constructor(options: TextIndexOptions) {
    this.#options = options
  }

  /** Call it when a conversation has new messages. */
  scheduleIndexing(ordinal: number): void {
    this.#pendingOrdinals.add(ordinal)
    this.#pendingSince.lastMs = performance.now()
    if (this.#flushTimer !== undefined) return
    this.#pendingSince.firstMs = this.#pendingSince.lastMs
    this.#scheduleFlush()
  }

  /**
   * Positions of the messages of a selection that contain the needle. Rejects with a DamagedRowError for a
   * message that is not what was written.
   */
  async search(selection: Selection, needle: string): Promise<number[]> {
    const rows = await this.#request({ kind: 'search', selection, needle })
    return Array.isArray(rows) ? rows.map((row) => Number(row) % positionsPerConversation) : []
  }

  async count(selection: Selection, needle: string | undefined): Promise<number> {
    return Number(await this.#request({ kind: 'count', selection, needle }))
  }

  /** `areIndexesRight` of index-check.ts, in the thread, beside other requests. */
  async areIndexesRight(group: IndexGroup, compared: Compared): Promise<boolean> {
    return (await this.#request({ kind: 'check', group, compared })) === true
  }

  /** Removes a conversation from the index. */
  async forget(ordinal: number): Promise<void> {
    this.#pendingOrdinals.delete(ordinal)
    if (this.#worker === undefined && !existsSync(this.#options.indexPath)) return
    await this.#request({ kind: 'forget', ordinal })
  }

  /** Releases the free space of index.db in steps, for about that time; undefined when there is no index. */
  async compact(maxMs: number): Promise<CompactedFile | undefined> {
    if (this.#worker === undefined && !existsSync(this.#options.indexPath)) return undefined
    return (await this.#request({ kind: 'compact', maxMs })) as CompactedFile
  }

  /** Resolves when every durable message is indexed. */
  async waitUntilIndexed(): Promise<void> {
    this.#flush()
    await this.#request({ kind: 'settle' })
  }

  /** Ends the thread where it has nothing to do and the next one starts soon, to free its memory. */
  endIdleThread(): void {
    const isBusy = this.#pendingRequests.size > 0 || this.#pendingOrdinals.size > 0
    if (this.#worker === undefined || isBusy || this.#isClosed) return
    const size = statSync(this.#options.indexPath, { throwIfNoEntry: false })?.size ?? 0
    if (size <= maxSoonVerifiedBytes) this.#end(this.#worker)
  }

  /** Ends the thread, which holds the files open. What it has not answered is asked again by `resume`. */
  async pause(): Promise<void> {
    this.#isPaused = true
    await this.#stop()
  }

  resume(): void {
    this.#isPaused = false
    for (const [id, { request }] of this.#pendingRequests) this.#send(id, request)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#flushTimer)
    await this.#stop()
    this.#rejectPending(closedError())
  }

  async #stop(): Promise<void> {
    clearTimeout(this.#idleTimer)
    await this.#ending
    if (this.#worker !== undefined) await endWorker(this.#worker)
  }

  #scheduleFlush(): void {
    this.#flushTimer = setTimeout(() => {
      const now = performance.now()
      const { firstMs, lastMs } = this.#pendingSince
      if (now - lastMs < quietMs && now - firstMs < maxDelayMs) this.#scheduleFlush()
      else this.#flush()
    }, quietMs).unref()
  }

  #flush(): void {
    clearTimeout(this.#flushTimer)
    this.#flushTimer = undefined
    if (this.#pendingOrdinals.size === 0 || this.#isClosed) return
    const ordinals = [...this.#pendingOrdinals]
    this.#pendingOrdinals.clear()
    this.#requestInBackground({ kind: 'index', ordinals })
  }

  /** Keeps the thread alive until the work is done. */
  #requestInBackground(request: NewRequest): void {
    this.#request(request).catch((error: unknown) => {
      if (!this.#isClosed)
        this.#options.log('error', 'messages could not be indexed', { error: String(error) })
    })
  }

  async #request(request: NewRequest): Promise<unknown> {
    await this.#ending
    if (this.#isClosed) throw closedError()
    const id = ++this.#lastId
    const pending = { request, ...Promise.withResolvers<unknown>() }
    this.#pendingRequests.set(id, pending)
    if (!this.#isPaused) this.#send(id, request)
    return await pending.promise
  }

  #send(id: number, request: NewRequest): void {
    const worker = this.#worker ?? this.#start()
    clearTimeout(this.#idleTimer)
    worker.ref()
    worker.postMessage({ ...request, id })
  }

  #start(): Worker {
    const { logPath, indexPath, durable } = this.#options
    const worker = new Worker(new URL('./text-worker-main.js', import.meta.url), {
      workerData: { logPath, indexPath, durable: durable.shared },
      execArgv: [],
      resourceLimits: { maxYoungGenerationSizeMb },
      name: 'text-index',
    })
    worker.on('message', (response: TextResponse) => this.#handleResponse(worker, response))
    worker.on('error', (error) => this.#fail(worker, error))
    worker.on('exit', () => this.#fail(worker, new Error('The text index has stopped')))
    this.#worker = worker
    this.#requestInBackground({ kind: 'settle' })
    return worker
  }

  #handleResponse(worker: Worker, { id, result, error, damagedRow, isLogDamaged }: TextResponse): void {
    if (id === 0) this.#options.log('error', 'messages could not be indexed', { error })
    const pending = this.#pendingRequests.get(id)
    this.#pendingRequests.delete(id)
    if (this.#pendingRequests.size === 0) this.#startIdleTimer(worker)
    if (error === undefined) pending?.resolve(result)
    else if (damagedRow !== undefined) pending?.reject(new DamagedRowError(damagedRow))
    else if (isLogDamaged) pending?.reject(new DamagedLogError(error))
    else pending?.reject(unavailable(error))
  }

  #startIdleTimer(worker: Worker): void {
    // `close` waits for the thread's end, and an unreferenced thread may not report it.
    if (this.#isClosed) return
    worker.unref()
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => this.#end(worker), idleMs).unref()
  }

  #end(worker: Worker): void {
    clearTimeout(this.#idleTimer)
    this.#worker = undefined
    this.#ending = endWorker(worker).finally(() => {
      this.#ending = undefined
    })
  }

  #fail(worker: Worker, cause: unknown): void {
    if (this.#worker !== worker) return
    this.#worker = undefined
    if (!this.#isPaused) this.#rejectPending(unavailable(cause))
  }

  #rejectPending(error: Error): void {
    for (const { reject } of this.#pendingRequests.values()) reject(error)
    this.#pendingRequests.clear()
  }
}

async function endWorker(worker: Worker): Promise<void> {
  worker.ref()
  const exited = once(worker, 'exit')
  const timeout = new AbortController()
  worker.postMessage({ id: 0, kind: 'close' } satisfies TextRequest)
  await Promise.race([exited, sleep(maxCloseMs, undefined, { signal: timeout.signal }).catch(() => {})])
  timeout.abort()
  await worker.terminate()
}

function closedError(): Error {
  return new Error('The text index is closed')
}

function unavailable(cause: unknown): Error {
  return storageUnavailableProblem('The text index failed', cause)
}
