import { setTimeout as sleep } from 'node:timers/promises'
import type { PositionedEvent, SandboxServerClient } from '@slipway/client'
import type { AppConversation, Event } from '@slipway/protocol'
import { Problem, parseInstant } from '@slipway/protocol/client'
import { readText } from '@slipway/shared/async'
import { asObject, asString } from '../output/action-text.ts'
import { parseRawPage } from '../parsing/raw-page.ts'

interface RemoteEventsOptions {
  /** Abort it to end quietly. */
  readonly signal: AbortSignal
  /** Skip this many events; 0 by default. */
  readonly after?: number
  /**
   * End when the conversation is idle or its sandbox does not run. Waits some seconds for a run to begin,
   * until an event comes after `after`.
   */
  readonly until?: 'idle' | undefined
  readonly pollMs?: number
}

/** After this time without events, the status of the conversation is requested. */
const statusPollDelayMs = 2_000
/** A run that has not begun after this time is not expected. */
const startTimeoutMs = 6_000

/**
 * The events that the sandbox server has of a conversation, each once in order of time, then new ones; its
 * sandbox need not run. `position` counts them. An event older than its predecessor, which agents do not
 * write, may be skipped.
 */
export async function* remoteEvents(
  client: SandboxServerClient,
  id: string,
  options: RemoteEventsOptions,
): AsyncGenerator<PositionedEvent> {
  const { signal, after = 0, until, pollMs = 300 } = options
  const reader = new RemoteLogReader(client, id)
  let lastEventAt = Date.now()
  try {
    for (;;) {
      for await (const item of reader.readNew(signal)) {
        lastEventAt = Date.now()
        if (item.position > after) yield item
      }
      const silentMs = Date.now() - lastEventAt
      const hasStarted = reader.count > after || silentMs >= startTimeoutMs
      if (until === 'idle' && hasStarted && (await isIdle(client, id, { log: reader, silentMs, signal }))) {
        // Events stored since the last read.
        yield* reader.readNew(signal)
        return
      }
      await sleep(pollMs, undefined, { signal })
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** Reads a remote log incrementally. */
class RemoteLogReader {
  readonly #client: SandboxServerClient
  readonly #id: string
  readonly #seenIds = new Set<string>()
  #since: string | undefined
  count = 0
  /** The execution status of the last status update. */
  status: string | undefined

  constructor(client: SandboxServerClient, id: string) {
    this.#client = client
    this.#id = id
  }

  async *readNew(signal: AbortSignal): AsyncGenerator<PositionedEvent> {
    const since = this.#since
    let page_id: string | undefined
    do {
      const query = { ...(since === undefined ? {} : { timestamp__gte: since }), page_id }
      const params = { conversation_id: this.#id }
      const response = await this.#client.open('searchHomeEvents', { params, query, signal })
      const { items, next_page_id } = parseRawPage(await readText(response))
      for (const text of items) {
        const event: Event = JSON.parse(text)
        if (!this.#isNew(event)) continue
        const position = ++this.count
        yield { position, cursor: String(position), text, event }
      }
      page_id = next_page_id ?? undefined
    } while (page_id !== undefined)
  }

  #isNew(event: Event): boolean {
    const { id, timestamp, key, value } = asObject(event)
    if (this.#seenIds.has(asString(id))) return false
    if (typeof timestamp === 'string' && timestamp !== this.#since && parseInstant(timestamp) !== undefined) {
      this.#since = timestamp
      this.#seenIds.clear()
    }
    this.#seenIds.add(asString(id))
    if (key === 'execution_status') this.status = asString(value)
    return true
  }
}

async function isIdle(
  client: SandboxServerClient,
  id: string,
  { log, silentMs, signal }: { log: RemoteLogReader; silentMs: number; signal: AbortSignal },
): Promise<boolean> {
  if (log.status !== undefined && log.status !== 'running') return true
  if (silentMs < statusPollDelayMs) return false
  const { sandbox_status, execution_status } = await getAppConversation(client, id, signal)
  if (sandbox_status !== 'RUNNING' && sandbox_status !== 'STARTING') return true
  if (log.status === 'running' || execution_status === 'running') return false
  return execution_status !== null
}

/** A Problem `not_found` when there is none. */
export async function getAppConversation(
  client: SandboxServerClient,
  id: string,
  signal: AbortSignal,
): Promise<AppConversation> {
  const found = await client.call('listAppConversations', { query: { ids: [id] }, signal })
  const [conversation] = Array.isArray(found) ? found : []
  if (conversation) return conversation
  throw new Problem('not_found', 'There is no such conversation. "slipway app ls" lists them.')
}
