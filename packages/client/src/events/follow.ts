import type { Event } from '@slipway/protocol'
import type { Client } from '../calls/agent-server-client.ts'
import { CallError } from '../calls/errors.ts'
import { SentEventReader } from './sse-parser.ts'

/** An event and its number in the conversation: 1, 2, 3 ... */
export interface PositionedEvent {
  readonly position: number
  /** The event's JSON as the server sent it. */
  readonly text: string
  /** The same, read. A conversation that keeps events of other versions may hold kinds that the type does not name. */
  readonly event: Event
}

/**
 * What is sent besides the log and stored nowhere: a piece of an answer on its way, or what the models have used so far.
 * Pieces may be missing. The event that they become follows.
 */
export type Hint =
  | { readonly kind: 'StreamingDeltaEvent'; readonly content?: string; readonly reasoning_content?: string }
  | { readonly kind: 'ConversationStateUpdateEvent'; readonly key: string; readonly value: unknown }

export interface FollowOptions {
  /** Begin after this position; 0, the default, is the beginning. */
  readonly after?: number
  /** Abort it to end quietly. */
  readonly signal?: AbortSignal
  /** End when all events have been read and nothing runs in the conversation. */
  readonly until?: 'idle'
  /** Called with each hint, between the events. A server that sends none leaves it uncalled. */
  readonly onHint?: (hint: Hint) => void
  /** A connection that says nothing for this long is given up; the server speaks at least every 10 s. Default 35,000. */
  readonly silenceMs?: number
  /** How long to wait before the nth try in a row (1, 2 ...) that brought nothing. Default: 250 to 10,000, jittered. */
  readonly backOffMs?: (failures: number) => number
}

/**
 * The events of a conversation, each once and in order of position, the old ones and then those to come. A
 * connection that breaks is made again from the last position, for ever. Ends when the signal aborts or `until` has
 * come true; rejects with the `CallError` when the server refuses (401, 403, 404, a position beyond the end, ...), and with
 * what `onHint` throws.
 */
export async function* follow(
  client: Client,
  conversationId: string,
  options: FollowOptions = {},
): AsyncGenerator<PositionedEvent, void, undefined> {
  const { signal, until, onHint, silenceMs = 35_000, backOffMs = jittered } = options
  let last = options.after ?? 0
  // A listener that throws is a fault of the caller, not of the connection.
  let fault: { readonly reason: unknown } | undefined
  const tell = (hint: Hint) => {
    try {
      onHint?.(hint)
    } catch (reason) {
      fault = { reason }
      throw reason
    }
  }
  for (let failures = 1; !signal?.aborted; failures++) {
    try {
      for await (const item of connection(client, conversationId, {
        after: last,
        signal,
        until,
        onHint: onHint && tell,
        silenceMs,
      })) {
        if (!(item.position > last)) continue
        last = item.position
        failures = 0
        yield item
        if (signal?.aborted) return
      }
      // A server that stops ends its streams too, so a clean end alone does not say that the conversation is at rest.
      if (until === 'idle' && (await isAtRest(client, conversationId, last, signal))) return
    } catch (error) {
      if (fault !== undefined) throw fault.reason
      if (signal?.aborted) return
      if (error instanceof CallError && isFinal(error.status)) throw error
    }
    await pause(backOffMs(Math.max(failures, 1)), signal)
  }
}

interface ConnectionOptions {
  readonly after: number
  readonly signal: AbortSignal | undefined
  readonly until: 'idle' | undefined
  readonly onHint: ((hint: Hint) => void) | undefined
  readonly silenceMs: number
}

/** The events of one connection; rejects when it breaks or falls silent. */
async function* connection(
  client: Client,
  id: string,
  options: ConnectionOptions,
): AsyncGenerator<PositionedEvent> {
  const { after, signal, until, onHint, silenceMs } = options
  const stop = new AbortController()
  const either = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal])
  const soon = <T>(pending: Promise<T>): Promise<T> => {
    const timer = setTimeout(() => stop.abort(new Error('the connection fell silent')), silenceMs)
    return pending.finally(() => clearTimeout(timer))
  }
  try {
    const query = {
      after: String(after),
      ...(until === undefined ? {} : { until }),
      ...(onHint === undefined ? {} : { hints: 'true' }),
    }
    const response = await soon(
      client.open('streamEvents', { params: { conversation_id: id }, query, signal: either }),
    )
    const reader = response.body?.getReader()
    const sent = new SentEventReader()
    for (;;) {
      const piece = await soon(reader?.read() ?? Promise.resolve(ended))
      if (piece.done) return
      for (const { type, id: position, data } of sent.push(piece.value)) {
        if (type === 'message') yield { position: Number(position), text: data, event: JSON.parse(data) }
        else if (type === 'hint') onHint?.(JSON.parse(data))
      }
    }
  } finally {
    stop.abort()
  }
}

const ended = { done: true, value: undefined } as const

async function isAtRest(
  client: Client,
  id: string,
  last: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const params = { conversation_id: id }
  const count = await client.call('countEvents', { params, signal })
  const { execution_status } = await client.call('getConversation', { params, signal })
  return count <= last && execution_status !== 'running'
}

/** Trying again does not help, unlike after a time-out or a limit of rate. */
function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429
}

function jittered(failures: number): number {
  return Math.min(10_000, 250 * 2 ** Math.min(failures - 1, 10)) * (0.5 + Math.random() / 2)
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal?.addEventListener('abort', done)
    if (signal?.aborted) done()
  })
}
