import { randomUUID } from 'node:crypto'
import { CallError, type CallInput } from '@slipway/client'
import { Problem } from '@slipway/protocol'
import { errorText } from '@slipway/shared/text'
import { ownedBy, type PendingMessageRow, type Scope } from '@slipway/storage/control-plane'
import type { SandboxConnection, Sandboxes } from '../sandboxes/sandboxes.ts'
import type { ConversationContext } from './records/conversation-context.ts'
import { parseUuid } from './records/conversation-ids.ts'

const maxPending = 10
/** Statuses that a retry does not change: invalid or too large. */
const permanentRejections = new Set([400, 413, 415, 422])
const sendTimeoutMs = 30_000

type Message = NonNullable<CallInput<'sendMessage'>['body']>

interface PendingMessagesDeps
  extends Pick<ConversationContext, 'controlPlane' | 'conversationMutex' | 'log' | 'clock'> {
  readonly sandboxes: Pick<Sandboxes, 'find' | 'getConnection' | 'touch'>
}

/** Messages for conversations that are not ready, each retried in order until its agent server stores it. */
export class PendingMessages implements AsyncDisposable {
  readonly #deps: PendingMessagesDeps
  readonly #closing = new AbortController()
  readonly #deliveries = new Set<Promise<void>>()

  constructor(deps: PendingMessagesDeps) {
    this.#deps = deps
  }

  /** `to`: a conversation, or `task-` and its start task. Problems: `not_found`, `too_many` when ten wait. */
  async add(scope: Scope, to: string, message: Message) {
    const { controlPlane, clock } = this.#deps
    const target = await this.#resolveTarget(scope, to)
    const id = randomUUID()
    const row = {
      id,
      target,
      owner: scope.owner,
      message: JSON.stringify(message),
      created_at: clock.now() * 1000,
    }
    const position = await controlPlane.pendingMessages.add(row, maxPending)
    if (position === undefined) throw new Problem('too_many', `${maxPending} messages wait already`)
    this.deliver(target)
    return { id, position }
  }

  /** Delivers pending messages in the background, if the conversation runs. */
  deliver(conversation: string): void {
    this.#runInBackground({ conversation }, () =>
      this.#deps.conversationMutex.runExclusive(`pending:${conversation}`, () => this.#deliver(conversation)),
    )
  }

  /** `deliver` for all conversations of a sandbox. */
  deliverToSandbox(sandbox: string): void {
    this.#runInBackground({ sandbox }, async () => {
      for (const { id } of await this.#deps.controlPlane.conversations.listBySandbox(sandbox))
        this.deliver(id)
    })
  }

  #runInBackground(logFields: Readonly<Record<string, string>>, work: () => Promise<void>): void {
    if (this.#closing.signal.aborted) return
    const delivery = work().catch((error: unknown) => {
      this.#deps.log('warn', 'a pending message could not be delivered', {
        ...logFields,
        error: errorText(error),
      })
    })
    this.#deliveries.add(delivery)
    void delivery.finally(() => this.#deliveries.delete(delivery))
  }

  async remove(conversation: string): Promise<void> {
    const { pendingMessages } = this.#deps.controlPlane
    for (const { id } of await pendingMessages.list(conversation)) await pendingMessages.remove(id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#deliveries)
  }

  async #resolveTarget(scope: Scope, target: string): Promise<string> {
    const { startTasks, conversations } = this.#deps.controlPlane
    const isTask = target.startsWith('task-')
    const targetId = parseUuid(isTask ? target.slice('task-'.length) : target)
    const [task] = isTask && targetId !== undefined ? await startTasks.get([targetId]) : []
    const id = isTask ? task?.conversation : targetId
    if (id !== undefined && id !== null) {
      const [row] = await conversations.get([id])
      if (ownedBy(scope).includes(row)) return id
      // A starting conversation has no row.
      const query = { conversation_id__eq: id, limit: 1, sort_order: 'CREATED_AT_DESC' } as const
      const { items } = await startTasks.search({ owner: scope.owner }, query)
      if (row === undefined && items.length > 0) return id
    }
    throw new Problem('not_found', 'There is no such conversation and no such start task')
  }

  async #deliver(conversation: string): Promise<void> {
    const { controlPlane, sandboxes } = this.#deps
    for (const message of await controlPlane.pendingMessages.list(conversation)) {
      const [row] = await controlPlane.conversations.get([conversation])
      const [sandbox] = row === undefined ? [] : await sandboxes.find([row.sandbox])
      const connection = sandbox && sandboxes.getConnection(sandbox)
      if (connection === undefined) return
      await this.#send(connection, message)
      sandboxes.touch(connection.row.id)
      await controlPlane.pendingMessages.remove(message.id)
    }
  }

  /** Resolves when the message is stored or permanently rejected: an invalid one does not block the queue. */
  async #send({ client }: SandboxConnection, message: PendingMessageRow): Promise<void> {
    const conversation = message.target
    const body: Message = { ...JSON.parse(message.message), run: true }
    try {
      await client.call('sendMessage', {
        params: { conversation_id: conversation },
        body,
        // A message repeated after a lost answer is stored once.
        headers: { 'idempotency-key': message.id },
        signal: AbortSignal.any([this.#closing.signal, this.#deps.clock.timeout(sendTimeoutMs)]),
      })
    } catch (error) {
      if (!(error instanceof CallError) || !permanentRejections.has(error.status)) throw error
      const { status } = error
      this.#deps.log('error', 'a pending message was permanently rejected', { conversation, status })
    }
  }
}
