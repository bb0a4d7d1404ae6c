import { type Frame, frame } from '@slipway/http'
import type { PagedEvent, StoredEvent } from '@slipway/storage'
import { slim } from './slim.ts'

/** Frames of the legacy socket stay below this, because its clients refuse larger ones. */
export const maxLegacyFrameBytes = 1024 * 1024

/** What was made of a batch or an event: once for all readers that share it. */
const plain = new WeakMap<readonly PagedEvent[], readonly Frame[]>()
const positioned = new WeakMap<readonly PagedEvent[], readonly Frame[]>()
const sse = new WeakMap<StoredEvent, Buffer>()

/** The events alone: the frames that existing clients read. */
export function plainFrames(batch: readonly PagedEvent[]): readonly Frame[] {
  return once(plain, batch, () =>
    batch.map(({ bytes }) =>
      frame(bytes.length < maxLegacyFrameBytes ? bytes : slim(bytes, maxLegacyFrameBytes)),
    ),
  )
}

/** `{"position":n,"event":{...}}`: the frames of the resumable form. */
export function positionedFrames(batch: readonly PagedEvent[]): readonly Frame[] {
  return once(positioned, batch, () =>
    batch.map(({ position, bytes }) =>
      frame(Buffer.concat([Buffer.from(`{"position":${position},"event":`), bytes, Buffer.from('}')])),
    ),
  )
}

/** One server-sent event: `id` is the position, `data` the stored bytes. */
export function sentEvent(event: StoredEvent): Buffer {
  return once(sse, event, () =>
    Buffer.concat([
      Buffer.from(`id: ${event.position}\ndata: `),
      dataLines(event.bytes),
      Buffer.from('\n\n'),
    ]),
  )
}

/** A carriage return is white space to JSON but ends a line of the stream, so what follows it needs its own field. */
function dataLines(bytes: Buffer): Buffer {
  return bytes.includes(13) ? Buffer.from(bytes.toString('utf8').replaceAll('\r', '\ndata: ')) : bytes
}

function once<K extends WeakKey, V>(made: WeakMap<K, V>, key: K, make: () => V): V {
  const known = made.get(key)
  if (known !== undefined) return known
  const value = make()
  made.set(key, value)
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
