import { type Frame, frame } from '@slipway/http'
import type { PagedEvent } from '@slipway/storage'
import { slim } from './shrink-event.ts'

/** Frames of the legacy socket stay below this, because its clients refuse larger ones. */
export const maxLegacyFrameBytes = 1024 * 1024

/**
 * What was made of the latest batches. Readers that are up to date get the same batch one after another, so a few are
 * enough; a WeakMap would keep the batches of those who read history alive for long.
 */
class Latest<V> {
  readonly #made = new Map<readonly PagedEvent[], V>()
  readonly #make: (batch: readonly PagedEvent[]) => V

  constructor(make: (batch: readonly PagedEvent[]) => V) {
    this.#make = make
  }

  of(batch: readonly PagedEvent[]): V {
    const known = this.#made.get(batch)
    if (known !== undefined) return known
    const value = this.#make(batch)
    this.#made.set(batch, value)
    const [oldest] = this.#made.keys()
    if (this.#made.size > maxLatest && oldest !== undefined) this.#made.delete(oldest)
    return value
  }
}

const maxLatest = 8

const plain = new Latest((batch) => batch.map(({ bytes }) => plainFrameOf(bytes)))
const positioned = new Latest((batch) =>
  batch.map(({ position, bytes }) =>
    frame(Buffer.concat([Buffer.from(`{"position":${position},"event":`), bytes, Buffer.from('}')])),
  ),
)
const sent = new Latest((batch) =>
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
  return plainFrameOf(Buffer.from(JSON.stringify(event)))
}

function plainFrameOf(bytes: Buffer): Frame {
  return frame(bytes.length < maxLegacyFrameBytes ? bytes : slim(bytes, maxLegacyFrameBytes))
}

/** The events alone: the frames that existing clients read. */
export function plainFrames(batch: readonly PagedEvent[]): readonly Frame[] {
  return plain.of(batch)
}

/** `{"position":n,"event":{...}}`: the frames of the resumable form. */
export function positionedFrames(batch: readonly PagedEvent[]): readonly Frame[] {
  return positioned.of(batch)
}

/** Server-sent events: `id` is the position, `data` the stored bytes. */
export function sentEvents(batch: readonly PagedEvent[]): Buffer {
  return sent.of(batch)
}

/** A carriage return is white space to JSON but ends a line of the stream, so what follows it needs its own field. */
function dataLines(bytes: Buffer): Buffer {
  return bytes.includes(13) ? Buffer.from(bytes.toString('utf8').replaceAll('\r', '\ndata: ')) : bytes
}

/**
 * What a tail gives, `silence` when nothing comes for `ms`, and `bell` when that rings. The tail is started with a signal of its
 * own, which aborts when the outer one does and when the loop is left: a tail that waits cannot be closed otherwise.
 */
export async function* withBeats<T extends object>(
  start: (signal: AbortSignal) => AsyncIterable<T>,
  { ms, bell, signal }: { readonly ms: number; readonly bell: Bell; readonly signal: AbortSignal },
): AsyncGenerator<T | 'silence' | 'bell'> {
  const stop = new AbortController()
  const iterator = start(AbortSignal.any([signal, stop.signal]))[Symbol.asyncIterator]()
  let outcome: (() => IteratorResult<T>) | undefined
  const ask = () => {
    outcome = undefined
    void iterator
      .next()
      .then(
        (result) => () => result,
        (error: unknown) => () => {
          throw error
        },
      )
      .then((given) => {
        outcome = given
        bell.ring()
      })
  }
  try {
    ask()
    for (;;) {
      const isRung = await bell.heard(ms)
      const result = outcome?.()
      if (result === undefined) yield isRung ? 'bell' : 'silence'
      else if (result.done) return
      else {
        yield result.value
        ask()
      }
    }
  } finally {
    stop.abort()
    await iterator.return?.()
  }
}

/** Wakes the one who waits, now or as soon as it begins to wait. */
export class Bell {
  #rung = Promise.withResolvers<boolean>()

  ring(): void {
    this.#rung.resolve(true)
  }

  /** True when it has been rung since the last time, false after `ms` without. */
  async heard(ms: number): Promise<boolean> {
    const timer = setTimeout(() => this.#rung.resolve(false), ms)
    const isRung = await this.#rung.promise
    clearTimeout(timer)
    this.#rung = Promise.withResolvers()
    return isRung
  }
}
