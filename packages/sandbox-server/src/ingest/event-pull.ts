/**
 * Fetches events from agent servers whose webhooks do not arrive.
 *
 * Problem: a sandbox may have no way to the control plane (no network, a policy, another network behind a
 * tunnel) while the control plane reaches it. Its history would stay in the sandbox, and end with it.
 *
 * Idea: the log of the agent server is the queue, as it is for webhooks, and what is stored here is the
 * cursor. A look compares the two for conversations that changed since the last one, and reads what is
 * missing from the stream of the agent server into the same ingest.
 *
 * Invariants:
 * - Each event is stored once and in order, also beside webhooks, other servers and after a kill: a batch
 *   names the position before its first event, and the ingest skips or refuses.
 * - A sandbox without an address of the control plane is read at each look. With one, what webhooks had the
 *   time between two looks for is read; so an append is here within two looks and the transfer.
 * - A sandbox whose webhooks arrive is looked at rarely, and often again when something was missing; so is one
 *   whose webhooks are not known yet while it is at rest and unused.
 * - What a sandbox answers is not trusted: events are bounded one by one, and a look by its time.
 * - A look that fails is repeated, later each time; it forgets nothing that it has not stored. None waits for
 *   that of another sandbox, unless as many are silent as may be looked at together, and a conversation whose
 *   events are refused holds up no other.
 *
 * If you change this: gaps in histories of sandboxes without a way here, or every event sent twice.
 * `event-pull.process.test.ts` has agent servers whose webhooks go nowhere.
 *
 * Decision pages: docs/decisions/0021-cursors.md, docs/decisions/0011-control-plane.md
 */

import { CallError, type Client, SseParser } from '@slipway/client'
import type { Instant, LogFunction } from '@slipway/protocol'
import { parseCursor } from '@slipway/protocol/client'
import { Semaphore } from '@slipway/shared/async'
import { errorText } from '@slipway/shared/text'
import type { Clock, Timer } from '@slipway/shared/time'
import type { Leases, SandboxRow } from '@slipway/storage/control-plane'
import { parseUuid, toHexId } from '../conversations/records/conversation-ids.ts'
import type { SandboxConnection } from '../sandboxes/sandboxes.ts'
import type { EventIngest } from './event-ingest.ts'

/** Two of them and a transfer are less than ten seconds. */
const lookMs = 3_000
const rareLookMs = 60_000
const lookTimeoutMs = 60_000
const answerTimeoutMs = 5_000
const maxConcurrentLooks = 32
/** Infos of conversations of one request. */
const pageSize = '20'
const batchEvents = 500
const batchBytes = 4 * 1024 * 1024
/** Of one event with its frame; the ingest refuses larger ones. */
const maxEventBytes = 72 * 1024 * 1024

interface EventPullDeps {
  readonly sandboxes: {
    /** Those that run. */
    listRunning(): AsyncIterable<SandboxRow>
    getConnection(row: SandboxRow): SandboxConnection | undefined
    /** Whether it knows an address of the control plane. */
    hasWebhooks(row: SandboxRow): boolean
    lastUse(row: SandboxRow): Instant
  }
  readonly ingest: Pick<EventIngest, 'receiveEvents' | 'receiveConversation' | 'findPosition'>
  readonly leases: Pick<Leases, 'tryAcquire'>
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: LogFunction
}

interface PullState {
  nextLook: number
  isLooking: boolean
  failures: number
  /** `updated_at` of the newest conversation whose events are here or in `lagging`. */
  since: string
  /** A request of its webhooks came since something was missing. */
  isHeard: boolean
  /** Conversations that ran when they were last listed. */
  readonly running: Set<string>
  /** Conversations that were behind at the last look, and how many events they had. */
  readonly lagging: Map<string, number>
}

type ConversationInfo = Awaited<ReturnType<typeof Client.prototype.call<'searchConversations'>>>['items'][0]

/** Looks at running sandboxes until it is disposed. */
export class EventPull implements AsyncDisposable {
  readonly #deps: EventPullDeps
  readonly #semaphore = new Semaphore(maxConcurrentLooks)
  readonly #stopping = new AbortController()
  #states = new Map<string, PullState>()
  readonly #looks = new Set<Promise<void>>()
  #round: Promise<void> = Promise.resolve()
  #timer: Timer | undefined

  constructor(deps: EventPullDeps) {
    this.#deps = deps
  }

  start(): void {
    this.#timer = this.#deps.clock.schedule(lookMs, () => {
      this.#round = this.#lookAtAll()
        .catch((error: unknown) => this.#logFailure(error))
        .then(() => {
          if (!this.#stopping.signal.aborted) this.start()
        })
    })
  }

  /** Its webhooks arrive. */
  noteWebhook(sandbox: string): void {
    const state = this.#states.get(sandbox)
    if (state !== undefined) state.isHeard = true
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort()
    this.#timer?.cancel()
    await this.#round
    await Promise.all(this.#looks)
  }

  async #lookAtAll(): Promise<void> {
    const { sandboxes, clock } = this.#deps
    const states = new Map<string, PullState>()
    for await (const row of sandboxes.listRunning()) {
      const state = this.#states.get(row.id) ?? newState()
      states.set(row.id, state)
      if (!state.isLooking && clock.now() >= state.nextLook) this.#startLook(row, state)
    }
    this.#states = states
  }

  #startLook(row: SandboxRow, state: PullState): void {
    state.isLooking = true
    const look = this.#semaphore
      .run(() => this.#look(row, state))
      .finally(() => {
        state.isLooking = false
        this.#looks.delete(look)
      })
    this.#looks.add(look)
  }

  /** Never rejects. */
  async #look(row: SandboxRow, state: PullState): Promise<void> {
    const { sandboxes, leases, clock } = this.#deps
    const signal = AbortSignal.any([this.#stopping.signal, clock.timeout(lookTimeoutMs)])
    try {
      signal.throwIfAborted()
      const connection = sandboxes.getConnection(row)
      const lease = connection && (await leases.tryAcquire(`pull ${row.id}`))
      if (connection === undefined || lease === undefined) return
      try {
        await lease.run(() => this.#compare(row, connection, state, signal))
      } finally {
        await lease.release()
      }
      state.failures = 0
      state.nextLook = clock.now() + (this.#isQuiet(row, state) ? rareLookMs : 0)
    } catch (error) {
      state.nextLook = clock.now() + Math.min(rareLookMs, lookMs * 2 ** state.failures++)
      this.#logFailure(error, row.id)
    }
  }

  /** Nothing is missing, and what comes is brought by webhooks, or nothing is expected. */
  #isQuiet(row: SandboxRow, { isHeard, lagging, running }: PullState): boolean {
    const { sandboxes, clock } = this.#deps
    if (!sandboxes.hasWebhooks(row) || lagging.size > 0) return false
    const unusedMs = clock.now() - sandboxes.lastUse(row) / 1000
    return isHeard || (running.size === 0 && unusedMs > rareLookMs)
  }

  async #compare(
    row: SandboxRow,
    connection: SandboxConnection,
    state: PullState,
    signal: AbortSignal,
  ): Promise<void> {
    const answer = () => AbortSignal.any([signal, this.#deps.clock.timeout(answerTimeoutMs)])
    const changed = await listChanged(connection.client, state.since, answer)
    const infos = new Map(changed.map((info) => [parseUuid(info.id) ?? '', info]))
    const failures: unknown[] = []
    for (const id of new Set([...infos.keys(), ...state.lagging.keys()])) {
      const info = infos.get(id)
      if (info?.execution_status === 'running') state.running.add(id)
      else if (info !== undefined) state.running.delete(id)
      try {
        const count = await this.#compareOne(
          row,
          connection,
          { id, info, seen: state.lagging.get(id) },
          signal,
        )
        if (count === undefined) {
          state.lagging.delete(id)
          continue
        }
        state.isHeard = false
        if (count === 'fetched') state.lagging.delete(id)
        else state.lagging.set(id, count)
      } catch (error) {
        if (signal.aborted) throw error
        failures.push(error)
        state.lagging.set(id, state.lagging.get(id) ?? 0)
      }
    }
    state.since = changed[0]?.updated_at ?? state.since
    if (failures.length > 0) throw failures[0]
  }

  /** Whether something was missing of a conversation; how many events it has when webhooks get more time. */
  async #compareOne(
    row: SandboxRow,
    connection: SandboxConnection,
    {
      id,
      info,
      seen,
    }: {
      readonly id: string
      readonly info: ConversationInfo | undefined
      readonly seen: number | undefined
    },
    signal: AbortSignal,
  ): Promise<number | 'fetched' | undefined> {
    const { ingest, sandboxes } = this.#deps
    const hasWebhooks = sandboxes.hasWebhooks(row)
    const at = await ingest.findPosition(row.id, id)
    const count = at && (await countEvents(connection.client, id, signal))
    if (at === undefined || count === undefined || count <= at.position) {
      if (info !== undefined && at !== undefined && !hasWebhooks)
        await ingest.receiveConversation(row, id, info)
      return undefined
    }
    // Webhooks get the time until the next look.
    if (hasWebhooks && !(seen !== undefined && at.position < seen)) return count
    await ingest.receiveConversation(row, id, info ?? (await getInfo(connection.client, id, signal)))
    await this.#read(row, connection, { id, ...at, count }, signal)
    return 'fetched'
  }

  /** Stores the events from a position to the end that was counted. */
  async #read(
    row: SandboxRow,
    { url, key }: SandboxConnection,
    missing: {
      readonly id: string
      readonly cursor: string
      readonly position: number
      readonly count: number
    },
    outerSignal: AbortSignal,
  ): Promise<void> {
    const end = new AbortController()
    const signal = AbortSignal.any([outerSignal, end.signal])
    const path = `/api/conversations/${toHexId(missing.id)}/events/stream?after=${missing.cursor}`
    const headers = { 'x-session-api-key': key.reveal(), accept: 'text/event-stream' }
    const response = await this.#deps.fetch(url + path, { headers, redirect: 'error', signal })
    try {
      if (!response.ok || response.body === null)
        throw new Error(`its agent server answers ${response.status} for the events of a conversation`)
      let batch: string[] = []
      let sizeBytes = 0
      let after = missing.position
      let position = after
      for await (const frame of readFrames(response.body)) {
        if (frame.type === 'resync') after = position = parseAfter(frame.data)
        if (frame.type !== 'message') continue
        const eventBytes = Buffer.byteLength(frame.data)
        // The ingest takes a large event alone.
        if (batch.length === batchEvents || (batch.length > 0 && sizeBytes + eventBytes > batchBytes)) {
          if (!(await this.#store(row, missing.id, batch, after))) return
          after = position
          batch = []
          sizeBytes = 0
        }
        batch.push(frame.data)
        sizeBytes += eventBytes
        position = parseCursor(frame.id)?.position ?? position + 1
        if (position < missing.count) continue
        await this.#store(row, missing.id, batch, after)
        return
      }
    } finally {
      end.abort()
      await response.body?.cancel().catch(() => {})
    }
  }

  /** False when earlier ones are missing: the next look begins there. */
  async #store(row: SandboxRow, id: string, events: readonly string[], after: number): Promise<boolean> {
    const bytes = Buffer.from(`[${events.join(',')}]`)
    const stream = (async function* () {
      yield bytes
    })()
    const body = { stream, isCompressed: false, length: bytes.length, after }
    return (await this.#deps.ingest.receiveEvents(row, id, body)) === undefined
  }

  #logFailure(error: unknown, sandbox?: string): void {
    if (this.#stopping.signal.aborted) return
    this.#deps.log('debug', 'events of a sandbox could not be fetched', { sandbox, error: errorText(error) })
  }
}

function newState(): PullState {
  const sets = { running: new Set<string>(), lagging: new Map<string, number>() }
  return { nextLook: 0, isLooking: false, failures: 0, since: '', isHeard: false, ...sets }
}

/** Conversations that changed at this time or later, the newest first. */
async function listChanged(
  client: Pick<Client, 'call'>,
  since: string,
  newSignal: () => AbortSignal,
): Promise<ConversationInfo[]> {
  const found: ConversationInfo[] = []
  for (let page_id: string | undefined; ; ) {
    const query = {
      limit: pageSize,
      sort_order: 'UPDATED_AT_DESC' as const,
      include_skills: 'false',
      page_id,
    }
    const page = await client.call('searchConversations', { query, signal: newSignal() })
    const changed = page.items.filter(({ updated_at }) => updated_at >= since)
    found.push(...changed)
    if (page.next_page_id === null || changed.length < page.items.length) return found
    page_id = page.next_page_id
  }
}

/** Undefined for a conversation that was removed. */
async function countEvents(
  client: Pick<Client, 'call'>,
  id: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    return await client.call('countEvents', { params: { conversation_id: id }, query: {}, signal })
  } catch (error) {
    if (error instanceof CallError && error.status === 404) return undefined
    throw error
  }
}

async function getInfo(
  client: Pick<Client, 'call'>,
  id: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  const [info] = await client.call('getConversations', { query: { ids: [toHexId(id)] }, signal })
  return { ...info, id }
}

async function* readFrames(body: AsyncIterable<Uint8Array>) {
  const parser = new SseParser()
  let pendingBytes = 0
  for await (const chunk of body) {
    const frames = parser.push(chunk)
    pendingBytes = frames.length > 0 ? 0 : pendingBytes + chunk.length
    if (pendingBytes > maxEventBytes) throw new Error('an event of its agent server is too long')
    yield* frames
  }
}

function parseAfter(data: string): number {
  const after: unknown = JSON.parse(data).after
  return typeof after === 'number' && after >= 0 ? after : 0
}
