import { randomUUID } from 'node:crypto'
import { CallError, type CallInput } from '@slipway/client'
import { type Instant, type Log, Problem } from '@slipway/protocol'
import type { Ledger, PendingMessageRow, Scope } from '@slipway/storage'
import type { Lanes } from '../async/keyed-mutex.ts'
import type { Reached, Sandboxes } from '../sandboxes/sandboxes.ts'
import { uuidOf } from './records/conversation-ids.ts'

const maxWaiting = 10
/** What will be refused again: not valid, too large. */
const refusals = new Set([400, 413, 415, 422])
const sendMs = 30_000

type Message = NonNullable<CallInput<'sendMessage'>['body']>

/** Messages for conversations that are not there yet. They are delivered in order, each until its agent server has it. */
export class Pending implements AsyncDisposable {
  readonly #parts: {
    readonly ledger: Pick<Ledger, 'conversations' | 'startTasks' | 'pendingMessages'>
    readonly sandboxes: Pick<Sandboxes, 'find' | 'reached' | 'touch'>
    readonly log: Log
    readonly now: () => Instant
  }
  readonly #lanes: Lanes
  readonly #closing = new AbortController()
  readonly #deliveries = new Set<Promise<void>>()

  constructor(
    parts: {
      readonly ledger: Pick<Ledger, 'conversations' | 'startTasks' | 'pendingMessages'>
      readonly sandboxes: Pick<Sandboxes, 'find' | 'reached' | 'touch'>
      readonly log: Log
      readonly now: () => Instant
    },
    lanes: Lanes,
  ) {
    this.#parts = parts
    this.#lanes = lanes
  }

  /**
   * Keeps a message and answers its place in the queue from 1. `target` is the id of a conversation, or `task-` and the id of its
   * start task. Problems: `not_found`, `too_many` when ten wait already.
   */
  async add(
    scope: Scope,
    target: string,
    message: Message,
  ): Promise<{ readonly id: string; readonly position: number }> {
    const conversation = await this.#conversation(scope, target)
    const id = randomUUID()
    const position = await this.#parts.ledger.pendingMessages.add(
      {
        id,
        target: conversation,
        owner: scope.owner,
        message: JSON.stringify(message),
        created_at: this.#parts.now(),
      },
      maxWaiting,
    )
    if (position === undefined) throw new Problem('too_many', `${maxWaiting} messages wait already`)
    this.deliver(conversation)
    return { id, position }
  }

  /** Delivers what waits, as far as that goes now; goes on behind. Nothing happens while the conversation does not run. */
  deliver(conversation: string): void {
    this.#behind({ conversation }, () =>
      this.#lanes.run(`pending:${conversation}`, () => this.#deliver(conversation)),
    )
  }

  /** The same for all conversations of a sandbox, when it runs (again). */
  deliverIn(sandbox: string): void {
    this.#behind({ sandbox }, async () => {
      for (const { id } of await this.#parts.ledger.conversations.inSandbox(sandbox)) this.deliver(id)
    })
  }

  #behind(about: Readonly<Record<string, string>>, work: () => Promise<void>): void {
    if (this.#closing.signal.aborted) return
    const delivery = work().catch((error: unknown) => {
      this.#parts.log('warn', 'a message that waits could not be delivered', {
        ...about,
        error: error instanceof Error ? error.message : String(error),
      })
    })
    this.#deliveries.add(delivery)
    void delivery.finally(() => this.#deliveries.delete(delivery))
  }

  /** With the conversation goes what waits for it. */
  async remove(conversation: string): Promise<void> {
    const { pendingMessages } = this.#parts.ledger
    for (const { id } of await pendingMessages.of(conversation)) await pendingMessages.remove(id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#deliveries)
  }

  async #conversation({ owner, org }: Scope, target: string): Promise<string> {
    const { startTasks, conversations } = this.#parts.ledger
    const isTask = target.startsWith('task-')
    const given = uuidOf(isTask ? target.slice('task-'.length) : target)
    const [task] = isTask && given !== undefined ? await startTasks.get([given]) : []
    const id = isTask ? task?.conversation : given
    if (id !== undefined && id !== null) {
      const [row] = await conversations.get([id])
      if (row?.owner === owner && (org === undefined || row.org === org)) return id
      // One that is on its way has no row yet.
      const query = { conversation_id__eq: id, limit: 1, sort_order: 'CREATED_AT_DESC' } as const
      const { items } = await startTasks.search({ owner }, query)
      if (row === undefined && items.length > 0) return id
    }
    throw new Problem('not_found', 'There is no such conversation and no such start task')
  }

  async #deliver(conversation: string): Promise<void> {
    const { ledger, sandboxes } = this.#parts
    for (const { id, message } of await ledger.pendingMessages.of(conversation)) {
      const [row] = await ledger.conversations.get([conversation])
      const [sandbox] = row === undefined ? [] : await sandboxes.find([row.sandbox])
      const reached = sandbox && sandboxes.reached(sandbox)
      if (reached === undefined || sandbox === undefined) return
      await this.#send(reached, conversation, { id, message })
      sandboxes.touch(sandbox.id)
      await ledger.pendingMessages.remove(id)
    }
  }

  /** Resolves when it is stored, and when it never will be: what is not a message must not keep those behind it waiting. */
  async #send(
    { client }: Reached,
    conversation: string,
    { id, message }: Pick<PendingMessageRow, 'id' | 'message'>,
  ): Promise<void> {
    const body: Message = { ...JSON.parse(message), run: true }
    try {
      await client.call('sendMessage', {
        params: { conversation_id: conversation },
        body,
        // Sent again after a lost answer it is stored once.
        headers: { 'idempotency-key': id },
        signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(sendMs)]),
      })
    } catch (error) {
      if (!(error instanceof CallError) || !refusals.has(error.status)) throw error
      const { status } = error
      this.#parts.log('error', 'a message that waited was refused for good', { conversation, status })
    }
  }
}
