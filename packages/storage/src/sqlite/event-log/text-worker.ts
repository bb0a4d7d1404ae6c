import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { DamagedRowError } from '../../event-log/damage.ts'
import { createNeedle } from '../../text/needle.ts'
import { failedFile, isDamaged, isDiskFull, isStorageFailure } from '../database/storage-failure.ts'
import { untilDurable } from '../database/wal/durable-point.ts'
import type { Selection } from './event-search.ts'
import { type Compared, compareIndexesApart, type IndexGroup } from './index-check.ts'
import { TextStore } from './text-store.ts'

/** Requests of the main thread. Each but `close` gets a response, in any order. */
export type TextRequest = { readonly id: number } & (
  | { readonly kind: 'search' | 'count'; readonly selection: Selection; readonly needle: string | undefined }
  | { readonly kind: 'check'; readonly group: IndexGroup; readonly compared: Compared }
  | { readonly kind: 'index'; readonly ordinals: readonly number[] }
  | { readonly kind: 'forget'; readonly ordinal: number }
  | { readonly kind: 'compact'; readonly maxMs: number }
  | { readonly kind: 'settle' }
  | { readonly kind: 'close' }
)
export interface TextResponse {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
  /** Of an event that is damaged. */
  readonly damagedRow?: number
  /** A page of the log cannot be read: the index is right. */
  readonly isLogDamaged?: boolean
}

const sliceMs = 25

/**
 * Indexes and searches in turns. A search reads what is not indexed yet from the log, so that it finds
 * everything, in slices as short as those of the builder; of all searches one has a slice in a turn. However
 * many clients search, half of the time and more goes to the index, which ends that work: one search at a
 * time to its end held the builder off for as long as somebody searched.
 */
class IndexWorker {
  readonly #store: TextStore
  readonly #pending: Set<number>
  #catchingUp: Promise<void> | undefined
  readonly #closing = new AbortController()
  /** Resolves when the last search that waits for its turn has it. */
  #lastTurn: Promise<unknown> = Promise.resolve()
  /** Resolves when the last check has ended. */
  #lastCheck: Promise<void> = Promise.resolve()
  /** Of the check in progress. */
  #steps: ReturnType<typeof compareIndexesApart> | undefined

  constructor(store: TextStore) {
    this.#store = store
    this.#pending = new Set(store.listPending())
    this.#startCatchUp()
  }

  async handle(request: TextRequest): Promise<unknown> {
    switch (request.kind) {
      case 'search':
        return await this.#inTurns(
          this.#store.search(request.selection, createNeedle(request.needle ?? ''), sliceMs),
        )
      case 'count': {
        const { selection, needle } = request
        return needle === undefined
          ? this.#store.count(selection)
          : await this.#inTurns(this.#store.countMatches(selection, createNeedle(needle), sliceMs))
      }
      case 'check':
        return await this.#check(request.group, request.compared)
      case 'index':
        for (const ordinal of request.ordinals) this.#pending.add(ordinal)
        this.#startCatchUp()
        return await this.#catchingUp
      case 'forget':
        this.#pending.delete(request.ordinal)
        while (!this.#isClosed && this.#store.forget(request.ordinal)) await nextTurn()
        if (!this.#isClosed) await this.#store.reclaim(() => this.#isClosed)
        return
      case 'compact':
        return await this.#store.compact({ maxMs: request.maxMs, signal: this.#closing.signal })
      case 'settle':
        return await this.#catchingUp
      case 'close':
        return this.#close()
    }
  }

  /** Runs a search slice by slice while the index is behind. */
  async #inTurns<T>(steps: Generator<void, T>): Promise<T> {
    for (;;) {
      if (this.#catchingUp !== undefined) await this.#takeTurn()
      const { done, value } = steps.next()
      if (done) return value
    }
  }

  async #takeTurn(): Promise<void> {
    const before = this.#lastTurn
    this.#lastTurn = before.then(() => nextTurn())
    await this.#lastTurn
  }

  /** One check after the other, each step by step: after a kill many conversations need one. */
  async #check(group: IndexGroup, compared: Compared): Promise<boolean> {
    const before = this.#lastCheck
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#lastCheck = promise
    await before
    try {
      this.#steps = compareIndexesApart(String(workerData.logPath), group, compared)
      for (;;) {
        const { done, value } = this.#steps.next()
        if (done) return value
        await nextTurn()
      }
    } finally {
      resolve()
    }
  }

  /** Ends the thread. After a failure the next one builds the index again. */
  #close(): void {
    this.#closing.abort()
    try {
      this.#steps?.return(false)
      this.#store.close()
    } catch {
      // The disk fails; the seal is missing.
    }
    process.exit()
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  /** Replaces a damaged index. */
  rebuild(): void {
    this.#store.rebuild()
    for (const ordinal of this.#store.listPending()) this.#pending.add(ordinal)
    this.#startCatchUp()
  }

  #startCatchUp(): void {
    this.#catchingUp ??= this.#catchUp().finally(() => {
      this.#catchingUp = undefined
    })
  }

  /** After a failure (a full disk) searches read the log, and the next message starts indexing again. */
  async #catchUp(): Promise<void> {
    for (const ordinal of this.#pending) {
      await nextTurn()
      if (this.#isClosed) return
      this.#pending.delete(ordinal)
      try {
        const head = this.#store.findHead(ordinal)
        await untilDurable(workerData.durable)
        if (this.#isClosed) return
        if (head !== undefined && this.#store.index(ordinal, head, sliceMs)) this.#pending.add(ordinal)
      } catch (error) {
        if (isIndexDamaged(error)) this.rebuild()
        else post({ id: 0, error: errorText(error) })
        endIfUnusable(error)
      }
    }
  }
}

function post(response: TextResponse): void {
  parentPort?.postMessage(response)
}

function errorText(error: unknown): string {
  return error instanceof Error && error.cause !== undefined ? `${error}: ${error.cause}` : String(error)
}

function isIndexDamaged(error: unknown): boolean {
  return isDamaged(error) && failedFile(error) !== workerData.logPath
}

/** Ends the thread after a failure of the disk: the next one opens the files again. */
function endIfUnusable(error: unknown): void {
  if (isStorageFailure(error) && !isDamaged(error) && !isDiskFull(error)) setImmediate(() => process.exit())
}

const indexWorker = new IndexWorker(new TextStore(String(workerData.logPath), String(workerData.indexPath)))

async function respond(request: TextRequest, isRetry: boolean): Promise<TextResponse> {
  const { id } = request
  try {
    return { id, result: await indexWorker.handle(request) }
  } catch (error) {
    endIfUnusable(error)
    if (error instanceof DamagedRowError) return { id, error: errorText(error), damagedRow: error.row }
    if (!isIndexDamaged(error) || isRetry)
      return { id, error: errorText(error), isLogDamaged: isDamaged(error) && !isIndexDamaged(error) }
    indexWorker.rebuild()
    return await respond(request, true)
  }
}

parentPort?.on('message', async (request: TextRequest) => post(await respond(request, false)))
