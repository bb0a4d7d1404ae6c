import { createFrame, type Frame } from '@slipway/http'
import type { Signal } from '@slipway/shared/async'
import { LruMap } from '@slipway/shared/collections'
import type { PagedEvent } from '@slipway/storage'
import { shrinkEvent } from './shrink-event.ts'

/** Frames of the legacy socket stay below this, because its clients refuse larger ones. */
export const maxLegacyFrameBytes = 1024 * 1024

/**
 * Results for the latest batches: up-to-date readers get the same batch one after another. A WeakMap would
 * hold batches of readers of history for long.
 */
function cacheByBatch<V extends object>(make: (batch: readonly PagedEvent[]) => V) {
  const cache = new LruMap<readonly PagedEvent[], V>({ max: 8, memoMethod: make })
  return (batch: readonly PagedEvent[]): V => cache.memo(batch)
}

/** The events alone: the frames that existing clients read. */
export const plainFrames = cacheByBatch((batch) => batch.map(({ bytes }) => boundedFrame(bytes)))
/** `{"position":n,"event":{...}}`: the frames of the resumable form. */
export const positionedFrames = cacheByBatch((batch) =>
  batch.map(({ position, bytes }) =>
    createFrame(Buffer.concat([Buffer.from(`{"position":${position},"event":`), bytes, Buffer.from('}')])),
  ),
)
/** Events above this size are not copied into their batch. */
const maxJoinedBytes = 256 * 1024

/** Server-sent events: `id` is the position, `data` the stored bytes. */
const joinedSseEvents = cacheByBatch((batch) => Buffer.concat(batch.flatMap(sseParts)))

/** The same, a large event in parts of its own. */
export function sseEvents(batch: readonly PagedEvent[]): readonly Buffer[] {
  const isLarge = batch.some(({ bytes }) => bytes.length > maxJoinedBytes)
  return isLarge ? batch.flatMap(sseParts) : [joinedSseEvents(batch)]
}

function sseParts({ position, bytes }: PagedEvent): Buffer[] {
  return [Buffer.from(`id: ${position}\ndata: `), dataLines(bytes), Buffer.from('\n\n')]
}

/** An event that is not stored, as a frame of the legacy socket. */
export function plainFrame(event: object): Frame {
  return boundedFrame(Buffer.from(JSON.stringify(event)))
}

function boundedFrame(bytes: Buffer): Frame {
  return createFrame(bytes.length < maxLegacyFrameBytes ? bytes : shrinkEvent(bytes, maxLegacyFrameBytes))
}

/** A carriage return, white space in JSON, ends a line of the stream: the rest needs its own field. */
function dataLines(bytes: Buffer): Buffer {
  return bytes.includes(13) ? Buffer.from(bytes.toString('utf8').replaceAll('\r', '\ndata: ')) : bytes
}

/**
 * The batches of a tail, `silence` after `ms` without any, and `signal` when `wakeUp` is notified. The tail
 * has an abort signal of its own, because a waiting one cannot be closed otherwise.
 */
export async function* withHeartbeat<T extends object>(
  start: (signal: AbortSignal) => AsyncIterable<T>,
  { ms, wakeUp, signal }: { readonly ms: number; readonly wakeUp: Signal; readonly signal: AbortSignal },
): AsyncGenerator<T | 'silence' | 'signal'> {
  const stop = new AbortController()
  const iterator = start(AbortSignal.any([signal, stop.signal]))[Symbol.asyncIterator]()
  let outcome: PromiseSettledResult<IteratorResult<T>> | undefined
  let version = 0
  const requestNext = () => {
    outcome = undefined
    void Promise.allSettled([iterator.next()]).then(([settled]) => {
      outcome = settled
      wakeUp.notify()
    })
  }
  try {
    requestNext()
    for (;;) {
      const isNotified = await wakeUp.waitFor(version, ms)
      version = wakeUp.version
      if (outcome?.status === 'rejected') throw outcome.reason
      if (outcome === undefined) yield isNotified ? 'signal' : 'silence'
      else if (outcome.value.done) return
      else {
        yield outcome.value.value
        requestNext()
      }
    }
  } finally {
    stop.abort()
    await iterator.return?.()
  }
}
