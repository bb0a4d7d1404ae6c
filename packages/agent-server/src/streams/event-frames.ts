import { createFrame, type Frame } from '@slipway/http'
import type { PagedEvent } from '@slipway/storage'
import { shrinkEvent } from './shrink-event.ts'

/** Frames of the legacy socket stay below this, because its clients refuse larger ones. */
export const maxLegacyFrameBytes = 1024 * 1024

/**
 * What was made of the latest batches. Readers that are up to date get the same batch one after another, so a few are
 * enough; a WeakMap would keep the batches of those who read history alive for long.
 */
class BatchCache<V> {
  readonly #values = new Map<readonly PagedEvent[], V>()
  readonly #make: (batch: readonly PagedEvent[]) => V

  constructor(make: (batch: readonly PagedEvent[]) => V) {
    this.#make = make
  }

  get(batch: readonly PagedEvent[]): V {
    const existing = this.#values.get(batch)
    if (existing !== undefined) return existing
    const value = this.#make(batch)
    this.#values.set(batch, value)
    const [oldest] = this.#values.keys()
    if (this.#values.size > maxCachedBatches && oldest !== undefined) this.#values.delete(oldest)
    return value
  }
}

const maxCachedBatches = 8

const plainCache = new BatchCache((batch) => batch.map(({ bytes }) => boundedFrame(bytes)))
const positionedCache = new BatchCache((batch) =>
  batch.map(({ position, bytes }) =>
    createFrame(Buffer.concat([Buffer.from(`{"position":${position},"event":`), bytes, Buffer.from('}')])),
  ),
)
const sseCache = new BatchCache((batch) =>
  Buffer.concat(
    batch.flatMap(({ position, bytes }) => [
      Buffer.from(`id: ${position}\ndata: `),
      dataLines(bytes),
      Buffer.from('\n\n'),
    ]),
  ),
)

/** An event that is not stored, as a frame of the legacy socket. */
export function plainFrame(event: object): Frame {
  return boundedFrame(Buffer.from(JSON.stringify(event)))
}

function boundedFrame(bytes: Buffer): Frame {
  return createFrame(bytes.length < maxLegacyFrameBytes ? bytes : shrinkEvent(bytes, maxLegacyFrameBytes))
}

/** The events alone: the frames that existing clients read. */
export function plainFrames(batch: readonly PagedEvent[]): readonly Frame[] {
  return plainCache.get(batch)
}

/** `{"position":n,"event":{...}}`: the frames of the resumable form. */
export function positionedFrames(batch: readonly PagedEvent[]): readonly Frame[] {
  return positionedCache.get(batch)
}

/** Server-sent events: `id` is the position, `data` the stored bytes. */
export function sseEvents(batch: readonly PagedEvent[]): Buffer {
  return sseCache.get(batch)
}

/** A carriage return is white space to JSON but ends a line of the stream, so what follows it needs its own field. */
function dataLines(bytes: Buffer): Buffer {
  return bytes.includes(13) ? Buffer.from(bytes.toString('utf8').replaceAll('\r', '\ndata: ')) : bytes
}

/**
 * What a tail gives, `silence` when nothing comes for `ms`, and `bell` when that rings. The tail is started with a signal of its
 * own, which aborts when the outer one does and when the loop is left: a tail that waits cannot be closed otherwise.
 */
export async function* withHeartbeat<T extends object>(
  start: (signal: AbortSignal) => AsyncIterable<T>,
  { ms, wakeUp, signal }: { readonly ms: number; readonly wakeUp: Signal; readonly signal: AbortSignal },
): AsyncGenerator<T | 'silence' | 'bell'> {
  const stop = new AbortController()
  const iterator = start(AbortSignal.any([signal, stop.signal]))[Symbol.asyncIterator]()
  let outcome: (() => IteratorResult<T>) | undefined
  const requestNext = () => {
    outcome = undefined
    void iterator
      .next()
      .then(
        (result) => () => result,
        (error: unknown) => () => {
          throw error
        },
      )
      .then((settled) => {
        outcome = settled
        wakeUp.notify()
      })
  }
  try {
    requestNext()
    for (;;) {
      const isNotified = await wakeUp.wait(ms)
      const result = outcome?.()
      if (result === undefined) yield isNotified ? 'bell' : 'silence'
      else if (result.done) return
      else {
        yield result.value
        requestNext()
      }
    }
  } finally {
    stop.abort()
    await iterator.return?.()
  }
}

/** Wakes the one who waits, now or as soon as it begins to wait. */
export class Signal {
  #notified = Promise.withResolvers<boolean>()

  notify(): void {
    this.#notified.resolve(true)
  }

  /** True when it has been rung since the last time, false after `ms` without. */
  async wait(ms: number): Promise<boolean> {
    const timer = setTimeout(() => this.#notified.resolve(false), ms)
    const isNotified = await this.#notified.promise
    clearTimeout(timer)
    this.#notified = Promise.withResolvers()
    return isNotified
  }
}
