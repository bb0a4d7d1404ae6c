import type { Event, Resync } from '@slipway/protocol'
import { parseCursor } from '@slipway/protocol/client'
import type { Client } from '../calls/agent-server-client.ts'
import { CallError } from '../calls/errors.ts'
import { SseParser } from './sse-parser.ts'

/** An event and its number in the conversation: 1, 2, 3 ... */
export interface PositionedEvent {
  readonly position: number
  /** Pass it as `after` to continue after this event. */
  readonly cursor: string
  /** The event's JSON as the server sent it. */
  readonly text: string
  /** The parsed event. Its kind may be unknown to the type when the conversation stores other versions. */
  readonly event: Event
}

/**
 * Sent beside the log and not stored: a text delta of the model, or its usage so far. Deltas may be missing;
 * the complete event follows.
 */
export type TransientUpdate =
  | { readonly kind: 'StreamingDeltaEvent'; readonly content?: string; readonly reasoning_content?: string }
  /** The deltas since the last event are void: the model's stream broke. */
  | { readonly kind: 'StreamingResetEvent' }
  | { readonly kind: 'ConversationStateUpdateEvent'; readonly key: string; readonly value: unknown }

export interface FollowOptions {
  /** Begin after this cursor or position; 0, the default, is the beginning. */
  readonly after?: string | number
  /** Abort it to end quietly. */
  readonly signal?: AbortSignal
  /** End when all events have been read and nothing runs in the conversation. */
  readonly until?: 'idle' | undefined
  /** Called with each transient update, between the events. */
  readonly onTransientUpdate?: (update: TransientUpdate) => void
  /**
   * Called when the log has another history than the one that was read: drop what you have after
   * `resync.after`; the events after it follow, from there again. Without it `follow` rejects with a
   * `ResyncError`.
   */
  readonly onResync?: (resync: Resync) => void
  /** Called when the connection is lost or refused, before the next try. */
  readonly onDisconnect?: () => void
  /** Called when the server answers, the first time too. */
  readonly onConnect?: () => void
  /** Closes a connection without data for this long; the server sends every 10 s. Default 35,000. */
  readonly silenceTimeoutMs?: number
  /** Delay before the nth consecutive retry without events. Default: 250 to 10,000, jittered. */
  readonly retryDelayMs?: (failures: number) => number
}

/** The log has another history than the one that was read: an older log was restored. */
export class ResyncError extends Error {
  readonly resync: Resync

  constructor(resync: Resync) {
    super(resync.message)
    this.name = 'ResyncError'
    this.resync = resync
  }
}

/**
 * Yields the events of a conversation, each once in order of position: the stored ones, then new ones.
 * Reconnects from the last cursor. Ends when the signal aborts or the condition of `until` holds; rejects
 * with the `CallError` of a refusal, with a `ResyncError` unless there is an `onResync`, and with what the
 * callbacks throw.
 */
export async function* follow(
  client: Client,
  conversationId: string,
  options: FollowOptions = {},
): AsyncGenerator<PositionedEvent, void, undefined> {
  const {
    signal,
    until,
    onTransientUpdate,
    onResync,
    onDisconnect,
    onConnect,
    silenceTimeoutMs = 35_000,
    retryDelayMs = jitteredBackoff,
  } = options
  let cursor = String(options.after ?? 0)
  let lastPosition = parseCursor(cursor)?.position ?? 0
  // An error of the listener is the caller's, not the connection's.
  let listenerError: { readonly reason: unknown } | undefined
  const notify =
    <T>(listener: (value: T) => void) =>
    (value: T) => {
      try {
        listener(value)
      } catch (reason) {
        listenerError = { reason }
        throw reason
      }
    }
  const startAgain = (resync: Resync) => {
    if (onResync === undefined) throw new ResyncError(resync)
    lastPosition = resync.after
    cursor = String(resync.after)
    onResync(resync)
  }
  for (let failures = 1; !signal?.aborted; failures++) {
    try {
      for await (const item of readConnection(client, conversationId, {
        after: cursor,
        signal,
        until,
        onTransientUpdate: onTransientUpdate && notify(onTransientUpdate),
        onResync: notify(startAgain),
        onConnect: onConnect && (() => notify(onConnect)(undefined)),
        silenceTimeoutMs,
      })) {
        if (!(item.position > lastPosition)) continue
        lastPosition = item.position
        cursor = item.cursor
        failures = 0
        yield item
        if (signal?.aborted) return
      }
      // A stopping server ends its streams too, so a clean end does not mean that the conversation is idle.
      if (until === 'idle' && (await isIdle(client, conversationId, lastPosition, signal))) return
    } catch (error) {
      if (listenerError !== undefined) throw listenerError.reason
      if (signal?.aborted) return
      if (error instanceof CallError && isPermanentFailure(error.status)) throw error
    }
    onDisconnect?.()
    await sleep(retryDelayMs(Math.max(failures, 1)), signal)
  }
}

interface ConnectionOptions {
  readonly after: string
  readonly signal: AbortSignal | undefined
  readonly until: 'idle' | undefined
  readonly onTransientUpdate: ((update: TransientUpdate) => void) | undefined
  readonly onResync: (resync: Resync) => void
  readonly onConnect: (() => void) | undefined
  readonly silenceTimeoutMs: number
}

/** The events of one connection; rejects when it breaks or stays silent. */
async function* readConnection(
  client: Client,
  id: string,
  options: ConnectionOptions,
): AsyncGenerator<PositionedEvent> {
  const { after, signal, until, onTransientUpdate, onResync, onConnect, silenceTimeoutMs } = options
  const abort = new AbortController()
  const combinedSignal = signal === undefined ? abort.signal : AbortSignal.any([signal, abort.signal])
  const withSilenceTimeout = <T>(pending: Promise<T>): Promise<T> => {
    const timer = setTimeout(() => abort.abort(new Error('the connection fell silent')), silenceTimeoutMs)
    return pending.finally(() => clearTimeout(timer))
  }
  try {
    const isFromStart = after === '0'
    const hints = onTransientUpdate && 'true'
    // As a header, also a bare position is answered by cursors.
    const headers: Record<string, string> = isFromStart ? {} : { 'last-event-id': after }
    const response = await withSilenceTimeout(
      client.open('streamEvents', {
        params: { conversation_id: id },
        query: { after: isFromStart ? undefined : after, until, hints },
        headers,
        signal: combinedSignal,
      }),
    )
    onConnect?.()
    const reader = response.body?.getReader()
    const parser = new SseParser()
    for (;;) {
      const chunk = await withSilenceTimeout(reader?.read() ?? Promise.resolve(endOfStream))
      if (chunk.done) return
      for (const { type, id: cursor, data } of parser.push(chunk.value)) {
        const position = parseCursor(cursor)?.position ?? Number.NaN
        if (type === 'message') yield { position, cursor, text: data, event: JSON.parse(data) }
        else if (type === 'resync') onResync(JSON.parse(data))
        else if (type === 'hint') onTransientUpdate?.(JSON.parse(data))
      }
    }
  } finally {
    abort.abort()
  }
}

const endOfStream = { done: true, value: undefined } as const

async function isIdle(
  client: Client,
  id: string,
  lastPosition: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const params = { conversation_id: id }
  const count = await client.call('countEvents', { params, signal })
  const { execution_status } = await client.call('getConversation', { params, signal })
  return count <= lastPosition && execution_status !== 'running'
}

/** A retry does not help, unlike after a time-out or a rate limit. */
function isPermanentFailure(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429
}

function jitteredBackoff(failures: number): number {
  return Math.min(10_000, 250 * 2 ** Math.min(failures - 1, 10)) * (0.5 + Math.random() / 2)
}

async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
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
