import { setTimeout as sleep } from 'node:timers/promises'
import type { PositionedEvent, SandboxServerClient } from '@slipway/client'
import { type AppConversation, type Event, Problem, parseInstant } from '@slipway/protocol'
import { asObject, asString } from '../output/action-text.ts'
import { parseRawPage } from '../parsing/raw-page.ts'

export interface RemoteEventsOptions {
  /** Abort it to end quietly. */
  readonly signal: AbortSignal
  /** Begin after so many events; 0 unless given. */
  readonly after?: number
  /**
   * End when nothing runs in the conversation any more, or when its sandbox does not run. What is about to begin is waited for some
   * seconds: until an event comes after `after`.
   */
  readonly until?: 'idle' | undefined
  readonly pollMs?: number
}

/** Without news for this long, the conversation is asked how it is. */
const statusPollDelayMs = 2_000
/** What was to begin and has not begun after this long does not. */
const startTimeoutMs = 6_000

/**
 * The events of a conversation as they come home to the sandbox server, each once and in order of time, the old ones and then
 * those to come; also while its sandbox is paused or gone. `position` counts them. Where an event is older than one that came
 * before it, which agents do not do, it may be passed over.
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
        // What came home between the last look and this question.
        yield* reader.readNew(signal)
        return
      }
      await sleep(pollMs, undefined, { signal })
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** How far a reader is. */
class RemoteLogReader {
  readonly #client: SandboxServerClient
  readonly #id: string
  readonly #seenIds = new Set<string>()
  #since: string | undefined
  count = 0
  /** The last status that an event told. */
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
      const { items, next_page_id } = parseRawPage(await response.text())
      for (const text of items) {
        const event: Event = JSON.parse(text)
        if (this.#isNew(event)) yield { position: ++this.count, text, event }
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
  throw new Problem('not_found', 'There is no such conversation. "slipway app list" shows those that are.')
}
