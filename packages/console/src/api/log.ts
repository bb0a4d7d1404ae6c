import { type FollowOptions, follow } from '@slipway/client'
import type { LogEvent, WireEvent } from '@slipway/protocol/event-text'
import { agentServer, getFromServer, isSandboxServer, sandboxServer } from './session.ts'

export type { LogEvent, WireEvent }

/** Where the log of a conversation is, on the server that this is the console of. */
export function logPath(id: string): string {
  return isSandboxServer() ? `api/v1/conversation/${id}/events` : `api/conversations/${id}/events`
}

/** The number of events that match, which is the position of the last one when all do. */
async function countEvents(
  id: string,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal | undefined,
): Promise<number> {
  const call = { params: { conversation_id: id }, query, signal }
  return isSandboxServer()
    ? await sandboxServer.call('countHomeEvents', call)
    : await agentServer.call('countEvents', call)
}

/** The position of the last event. */
export async function readHead(id: string, signal?: AbortSignal): Promise<number> {
  return await countEvents(id, {}, signal)
}

/** How often a sandbox server, which has no streams, is asked for new events. */
const pollMs = 1_500

/** The events after a position, then each new one. A sandbox server is asked again and again. */
export async function* followLog(
  id: string,
  options: Pick<FollowOptions, 'onTransientUpdate'> & {
    readonly after: number
    readonly signal: AbortSignal
    /** The log has another history than before. */
    readonly onResync?: () => void
  },
): AsyncGenerator<LogEvent> {
  if (!isSandboxServer()) {
    for await (const { position, event } of follow(agentServer, id, options))
      yield { position, event: event as unknown as WireEvent }
    return
  }
  const { signal } = options
  for (let { after } = options; ; await sleep(pollMs, signal)) {
    // While the server does not answer, the console says so; this continues when it is back.
    const head = await readHead(id, signal).catch(() => after)
    if (head < after) options.onResync?.()
    after = Math.min(after, head)
    while (after < head)
      for (const item of await readEvents(id, { after, limit: 500, head }, signal)) {
        yield item
        after = item.position
      }
  }
}

/** Rejects when the signal aborts, or has aborted. */
function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const stop = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal.addEventListener('abort', stop, { once: true })
  })
}

/** Undefined until the first answer says whether the server has pages by position. */
let hasRanges: boolean | undefined

/**
 * The events at the positions after `after`, at most `limit`, up to `head`; fewer when they are large, but
 * not none. A server without pages by position is asked for its stream, which begins at any position.
 */
export async function readEvents(
  id: string,
  range: { readonly after: number; readonly limit: number; readonly head: number },
  signal: AbortSignal,
): Promise<LogEvent[]> {
  const last = Math.min(range.after + range.limit, range.head)
  if (last <= range.after) return []
  if (hasRanges !== false) {
    const query = `first=${range.after + 1}&limit=${Math.min(500, last - range.after)}`
    const response = await getFromServer(`${logPath(id)}/range?${query}`, signal)
    hasRanges ??= response.ok
    if (response.ok) {
      const page: { first: number; items: WireEvent[] } = await response.json()
      return page.items.map((event, at) => ({ position: page.first + at, event }))
    }
  }
  const events: LogEvent[] = []
  for await (const item of followLog(id, { after: range.after, signal })) {
    events.push(item)
    if (item.position >= last) break
  }
  signal.throwIfAborted()
  return events
}

/** A filter that the server can search a log by. */
export type ServerFilter = Readonly<Record<string, string>>

let hasFind: boolean | undefined

/**
 * The positions of events that match, at most `limit`, the nearest first, from a position on in a direction.
 * `next` is where to continue: undefined at the end. Undefined when the server cannot search by position.
 */
export async function findPositions(
  id: string,
  search: {
    readonly from: number
    readonly direction: 'next' | 'previous'
    readonly limit: number
    readonly filter: ServerFilter
  },
  signal: AbortSignal,
): Promise<{ readonly positions: readonly number[]; readonly next: number | undefined } | undefined> {
  if (hasFind === false) return undefined
  const { from, direction, limit, filter } = search
  const query = new URLSearchParams({
    ...filter,
    from: String(from),
    direction,
    limit: String(Math.min(100, limit)),
  })
  const response = await getFromServer(`${logPath(id)}/find?${query}`, signal)
  hasFind ??= response.ok
  if (!response.ok) return undefined
  const page: { positions: number[]; next_from: number | null } = await response.json()
  return { positions: page.positions, next: page.next_from ?? undefined }
}

/** The position of the first event at or after an instant (ISO 8601); the head plus 1 when there is none. */
export async function positionAtTime(id: string, instant: string, signal?: AbortSignal): Promise<number> {
  return (await countEvents(id, { timestamp__lt: instant }, signal)) + 1
}
