import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { needleOf } from '../../text/needle.ts'
import { isFatal } from '../database/database.ts'
import type { Selection } from './event-search.ts'
import { TextStore } from './text-store.ts'

/** What the main thread asks for. Every request is answered, in any order. */
export type TextRequest = { readonly id: number } & (
  | { readonly kind: 'search' | 'count'; readonly selection: Selection; readonly needle: string | undefined }
  | { readonly kind: 'index'; readonly ordinals: readonly number[] }
  | { readonly kind: 'forget'; readonly ordinal: number }
  | { readonly kind: 'settle' }
)
export interface TextAnswer {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
}

const sliceMs = 25

/** Indexes behind the log a slice a turn, so that searches get their turn in between. */
class TextWork {
  readonly #store: TextStore
  readonly #behind: Set<number>
  #working: Promise<void> | undefined

  constructor(store: TextStore) {
    this.#store = store
    this.#behind = new Set(store.behind())
    this.#work()
  }

  async answer(request: TextRequest): Promise<unknown> {
    switch (request.kind) {
      case 'search':
        return this.#store.search(request.selection, needleOf(request.needle ?? ''))
      case 'count': {
        const { selection, needle } = request
        return needle === undefined
          ? this.#store.count(selection)
          : this.#store.countMatches(selection, needleOf(needle))
      }
      case 'index':
        for (const ordinal of request.ordinals) this.#behind.add(ordinal)
        this.#work()
        return await this.#working
      case 'forget':
        this.#behind.delete(request.ordinal)
        while (this.#store.forget(request.ordinal)) await nextTurn()
        return
      case 'settle':
        return await this.#working
    }
  }

  /** The index is damaged: begin again. */
  rebuild(): void {
    this.#store.rebuild()
    for (const ordinal of this.#store.behind()) this.#behind.add(ordinal)
    this.#work()
  }

  #work(): void {
    this.#working ??= this.#catchUp().finally(() => {
      this.#working = undefined
    })
  }

  /** What cannot be indexed now (a full disk) is found without the index, and tried again with the next message. */
  async #catchUp(): Promise<void> {
    for (const ordinal of this.#behind) {
      await nextTurn()
      this.#behind.delete(ordinal)
      try {
        if (this.#store.index(ordinal, sliceMs)) this.#behind.add(ordinal)
      } catch (error) {
        if (isFatal(error)) this.rebuild()
        else parentPort?.postMessage({ id: 0, error: String(error) } satisfies TextAnswer)
      }
    }
  }
}

const work = new TextWork(new TextStore(String(workerData.logPath), String(workerData.indexPath)))

async function answer(request: TextRequest, isRetry: boolean): Promise<TextAnswer> {
  const { id } = request
  try {
    return { id, result: await work.answer(request) }
  } catch (error) {
    if (!isFatal(error) || isRetry) return { id, error: String(error) }
    work.rebuild()
    return await answer(request, true)
  }
}

parentPort?.on('message', async (request: TextRequest) =>
  parentPort?.postMessage(await answer(request, false)),
)
