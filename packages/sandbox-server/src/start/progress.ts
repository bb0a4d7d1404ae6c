import {
  type AppConversationStartTask,
  formatInstant,
  type Instant,
  startTaskStatus,
} from '@slipway/protocol'
import type { StartTaskRow, StartTaskRows } from '@slipway/storage'
import { hexOf } from '../conversations/records/conversation-ids.ts'

/** A start under way: its task, and everything that the task has been so far. */
export class Progress {
  readonly #rows: StartTaskRows
  readonly #now: () => Instant
  readonly #told: StartTaskRow[]
  readonly #troubles: string[] = []
  #row: StartTaskRow
  #next = Promise.withResolvers<void>()

  /** The row stands in the ledger already. */
  constructor(rows: StartTaskRows, row: StartTaskRow, now: () => Instant) {
    this.#rows = rows
    this.#row = row
    this.#now = now
    this.#told = [row]
  }

  get row(): StartTaskRow {
    return this.#row
  }

  /** What did not go as wished: it is told with the next change, and when the start is READY. */
  note(trouble: string): void {
    this.#troubles.push(trouble)
  }

  /** Durable when it resolves, and only then told. The time never goes back. */
  async change(
    members: Partial<
      Pick<StartTaskRow, 'status' | 'detail' | 'sandbox' | 'agent_url' | 'conversation' | 'quota_day'>
    >,
  ): Promise<void> {
    const detail = this.#troubles.length === 0 ? null : this.#troubles.join('\n')
    const updated_at = Math.max(this.#now(), this.#row.updated_at + 1)
    const change = { detail, ...members, updated_at }
    const row = await this.#rows.change(this.#row.id, change)
    // The row goes when its conversation is deleted; whoever watches still learns the end.
    this.#row = row ?? { ...this.#row, ...change }
    this.#told.push(this.#row)
    const { resolve } = this.#next
    this.#next = Promise.withResolvers<void>()
    resolve()
  }

  /** Every state of the task from the first one on, until it is READY or ERROR. */
  async *changes(): AsyncGenerator<StartTaskRow> {
    for (let at = 0; ; at++) {
      while (at >= this.#told.length) await this.#next.promise
      const row = this.#told[at]
      if (row === undefined) return
      yield row
      if (isOver(row)) return
    }
  }
}

export function isOver({ status }: StartTaskRow): boolean {
  return status === 'READY' || status === 'ERROR'
}

/** A start task as its owner sees it (wire 2.4). The id of the conversation is there when it can be used, or tried again. */
export function startTask(row: StartTaskRow): AppConversationStartTask {
  return {
    id: hexOf(row.id),
    created_by_user_id: row.owner,
    status: startTaskStatus.parse(row.status),
    detail: row.detail,
    app_conversation_id: isOver(row) && row.conversation !== null ? hexOf(row.conversation) : null,
    sandbox_id: row.sandbox,
    agent_server_url: row.agent_url,
    request: JSON.parse(row.request),
    created_at: formatInstant(row.created_at),
    updated_at: formatInstant(row.updated_at),
  }
}
