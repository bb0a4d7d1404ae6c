import { follow, type PositionedEvent } from '@slipway/client'
import { agentServer, getFromServer } from './session.ts'

/** An event as the wire has it. Imported logs may hold any kind and any member, so nothing is assumed. */
export interface WireEvent {
  readonly kind: string
  readonly id?: string
  readonly timestamp?: string
  readonly source?: string
  readonly [member: string]: unknown
}

/** An event and where it is in its log. */
export interface LogEvent {
  readonly position: number
  readonly event: WireEvent
}

export function toLogEvent({ position, event }: PositionedEvent): LogEvent {
  return { position, event: event as unknown as WireEvent }
}

/** The number of events, which is the position of the last one. */
export async function readHead(id: string, signal?: AbortSignal): Promise<number> {
  return await agentServer.call('countEvents', { params: { conversation_id: id }, signal })
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
    const response = await getFromServer(`api/conversations/${id}/events/range?${query}`, signal)
    hasRanges ??= response.ok
    if (response.ok) {
      const page: { first: number; items: WireEvent[] } = await response.json()
      return page.items.map((event, at) => ({ position: page.first + at, event }))
    }
  }
  const events: LogEvent[] = []
  for await (const item of follow(agentServer, id, { after: range.after, signal })) {
    events.push(toLogEvent(item))
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
 * `next` is where to go on: undefined at the end. Undefined when the server cannot search by position.
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
  const response = await getFromServer(`api/conversations/${id}/events/find?${query}`, signal)
  hasFind ??= response.ok
  if (!response.ok) return undefined
  const page: { positions: number[]; next_from: number | null } = await response.json()
  return { positions: page.positions, next: page.next_from ?? undefined }
}

/** The position of the first event at or after an instant (ISO 8601); the head plus 1 when there is none. */
export async function positionAtTime(id: string, instant: string, signal?: AbortSignal): Promise<number> {
  const query = { timestamp__lt: instant }
  return (await agentServer.call('countEvents', { params: { conversation_id: id }, query, signal })) + 1
}
