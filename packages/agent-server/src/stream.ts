import { type Frame, frame } from '@slipway/http'
import type { StoredEvent } from '@slipway/storage'
import { slim } from './slim.ts'

/** Frames of the legacy socket stay below this, because its clients refuse larger ones. */
export const maxLegacyFrameBytes = 1024 * 1024

/** A frame is made once for all readers of an event. */
const plain = new WeakMap<StoredEvent, Frame>()
const positioned = new WeakMap<StoredEvent, Frame>()
const sse = new WeakMap<StoredEvent, Buffer>()

/** The event alone: the frame that existing clients read. */
export function plainFrame(event: StoredEvent): Frame {
  return once(plain, event, () =>
    frame(event.bytes.length < maxLegacyFrameBytes ? event.bytes : slim(event.bytes, maxLegacyFrameBytes)),
  )
}

/** `{"position":n,"event":{...}}`: the frame of the resumable form. */
export function positionedFrame(event: StoredEvent): Frame {
  return once(positioned, event, () =>
    frame(Buffer.concat([Buffer.from(`{"position":${event.position},"event":`), event.bytes, Buffer.from('}')])),
  )
}

/** One server-sent event: `id` is the position, `data` the stored bytes. */
export function sentEvent(event: StoredEvent): Buffer {
  return once(sse, event, () =>
    Buffer.concat([Buffer.from(`id: ${event.position}\ndata: `), dataLines(event.bytes), Buffer.from('\n\n')]),
  )
}

/** A carriage return is white space to JSON but ends a line of the stream, so what follows it needs its own field. */
function dataLines(bytes: Buffer): Buffer {
  return bytes.includes(13) ? Buffer.from(bytes.toString('utf8').replaceAll('\r', '\ndata: ')) : bytes
}

function once<V>(made: WeakMap<StoredEvent, V>, event: StoredEvent, make: () => V): V {
  const known = made.get(event)
  if (known !== undefined) return known
  const value = make()
  made.set(event, value)
  return value
}

/**
 * What a tail gives, and undefined after each `ms` of silence. The tail is started with a signal of its own, which
 * aborts when the outer one does and when the loop is left: a tail that waits cannot be closed otherwise.
 */
export async function* withBeats<T>(
  start: (signal: AbortSignal) => AsyncIterable<T>,
  ms: number,
  signal: AbortSignal,
): AsyncGenerator<T | undefined> {
  const stop = new AbortController()
  const iterator = start(AbortSignal.any([signal, stop.signal]))[Symbol.asyncIterator]()
  try {
    let next = iterator.next()
    for (;;) {
      const result = await withinMs(next, ms)
      if (result?.done) return
      yield result?.value
      if (result !== undefined) next = iterator.next()
    }
  } finally {
    stop.abort()
    await iterator.return?.()
  }
}

async function withinMs<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined)
  })
  try {
    return await Promise.race([promise, silence])
  } finally {
    clearTimeout(timer)
  }
}
