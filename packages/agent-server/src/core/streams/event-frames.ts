import { createFrame, type Frame } from '@slipway/http'
import type { Resync } from '@slipway/protocol'
import type { Signal } from '@slipway/shared/async'
import { LruMap } from '@slipway/shared/collections'
import type { Clock } from '@slipway/shared/time'
import { encodeCursor, type PagedEvent, type StoredEvent } from '@slipway/storage'
import { shrinkEvent } from './shrink-event.ts'

/** Frames of the legacy socket stay below this, because its clients refuse larger ones. */
export const maxLegacyFrameBytes = 1024 * 1024

/**
 * Results for the latest batches: up-to-date readers get the same batch one after another. A WeakMap would
 * hold batches of readers of history for long.
 */
function cacheByBatch<E extends PagedEvent, V extends object>(make: (batch: readonly E[]) => V) {
  const cache = new LruMap<readonly E[], V>({ max: 8, memoMethod: make })
  return (batch: readonly E[]): V => cache.memo(batch)
}

/** The events alone: the frames that existing clients read. */
export const plainFrames = cacheByBatch((batch: readonly PagedEvent[]) =>
  batch.map(({ bytes }) => boundedFrame(bytes)),
)
/** `{"position":n,"event":{...},"cursor":"n.digest"}`: the frames of the resumable form. */
export const positionedFrames = cacheByBatch((batch: readonly StoredEvent[]) =>
  batch.map((event) =>
    createFrame(
      Buffer.concat([
        Buffer.from(`{"position":${event.position},"event":`),
        event.bytes,
        Buffer.from(`,"cursor":"${encodeCursor(event)}"}`),
      ]),
    ),
  ),
)
/** Frames of the session socket have at most that many bytes of JSON. */
const maxSessionFrameBytes = 4 * 1024 * 1024

/**
 * `{"type":"durable","seq":n,"event":{...}}`: the frames of the session socket; undefined for a larger one.
 */
export const durableFrames = cacheByBatch((batch: readonly StoredEvent[]) =>
  batch.map(({ position, bytes }): Frame | undefined => {
    const head = Buffer.from(`{"type":"durable","seq":${position - 1},"event":`)
    if (head.length + bytes.length + 1 > maxSessionFrameBytes) return undefined
    return createFrame(Buffer.concat([head, bytes, Buffer.from('}')]))
  }),
)
/** Events above this size are not copied into their batch. */
const maxJoinedBytes = 256 * 1024

/**
 * What the `id` of a server-sent event is: its cursor, or its position for readers that begin with a bare
 * one.
 */
export type SseIds = 'cursor' | 'position'

const joinedSseEvents = {
  cursor: cacheByBatch((batch: readonly StoredEvent[]) => Buffer.concat(sseParts(batch, 'cursor'))),
  position: cacheByBatch((batch: readonly StoredEvent[]) => Buffer.concat(sseParts(batch, 'position'))),
}

/** Server-sent events: `data` is the stored bytes. A large event is in its own parts. */
export function sseEvents(batch: readonly StoredEvent[], ids: SseIds): readonly Buffer[] {
  const isLarge = batch.some(({ bytes }) => bytes.length > maxJoinedBytes)
  return isLarge ? sseParts(batch, ids) : [joinedSseEvents[ids](batch)]
}

function sseParts(batch: readonly StoredEvent[], ids: SseIds): Buffer[] {
  return batch.flatMap((event) => {
    const id = ids === 'cursor' ? encodeCursor(event) : event.position
    return [Buffer.from(`id: ${id}\ndata: `), dataLines(event.bytes), Buffer.from('\n\n')]
  })
}

/** Sent before the events from `after` on. */
export function sseResync(resync: Resync): Buffer {
  return Buffer.from(`event: resync\nid: ${resync.after}\ndata: ${JSON.stringify(resync)}\n\n`)
}

export function jsonFrame(value: object): Frame {
  return createFrame(Buffer.from(JSON.stringify(value)))
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
 * has its own abort signal, because a waiting one cannot be closed otherwise.
 */
export async function* withHeartbeat<T extends object>(
  start: (signal: AbortSignal) => AsyncIterable<T>,
  options: {
    readonly ms: number
    readonly wakeUp: Signal
    readonly clock: Clock
    readonly signal: AbortSignal
  },
): AsyncGenerator<T | 'silence' | 'signal'> {
  const { ms, wakeUp, clock, signal } = options
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
      const isNotified = await wakeUp.waitFor(version, ms, clock)
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
