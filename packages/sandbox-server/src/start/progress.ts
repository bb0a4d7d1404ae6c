import {
  type AppConversationStartTask,
  formatInstant,
  type Instant,
  startTaskStatus,
} from '@slipway/protocol'
import type { StartTaskRow, StartTaskRows } from '@slipway/storage'
import { toHexId } from '../conversations/records/conversation-ids.ts'

/** A start under way: its task, and everything that the task has been so far. */
export class StartProgress {
  readonly #rows: StartTaskRows
  readonly #now: () => Instant
  readonly #states: StartTaskRow[]
  readonly #warnings: string[] = []
  #row: StartTaskRow
  #changed = Promise.withResolvers<void>()

  /** The row stands in the ledger already. */
  constructor(rows: StartTaskRows, row: StartTaskRow, now: () => Instant) {
    this.#rows = rows
    this.#row = row
    this.#now = now
    this.#states = [row]
  }

  get row(): StartTaskRow {
    return this.#row
  }

  /** What did not go as wished: it is told with the next change, and when the start is READY. */
  addWarning(warning: string): void {
    this.#warnings.push(warning)
  }

  /** Durable when it resolves, and only then told. The time never goes back. */
  async update(
    members: Partial<
      Pick<StartTaskRow, 'status' | 'detail' | 'sandbox' | 'agent_url' | 'conversation' | 'quota_day'>
    >,
  ): Promise<void> {
    const detail = this.#warnings.length === 0 ? null : this.#warnings.join('\n')
    const updated_at = Math.max(this.#now(), this.#row.updated_at + 1)
    const change = { detail, ...members, updated_at }
    const row = await this.#rows.update(this.#row.id, change)
    // The row goes when its conversation is deleted; whoever watches still learns the end.
    this.#row = row ?? { ...this.#row, ...change }
    this.#states.push(this.#row)
    const { resolve } = this.#changed
    this.#changed = Promise.withResolvers<void>()
    resolve()
  }

  /** Every state of the task from the first one on, until it is READY or ERROR. */
  async *states(): AsyncGenerator<StartTaskRow> {
    for (let at = 0; ; at++) {
      while (at >= this.#states.length) await this.#changed.promise
      const row = this.#states[at]
      if (row === undefined) return
      yield row
      if (isFinished(row)) return
    }
  }
}

export function isFinished({ status }: StartTaskRow): boolean {
  return status === 'READY' || status === 'ERROR'
}

/** A start task as its owner sees it (wire 2.4). The id of the conversation is there when it can be used, or tried again. */
export function toStartTask(row: StartTaskRow): AppConversationStartTask {
  return {
    id: toHexId(row.id),
    created_by_user_id: row.owner,
    status: startTaskStatus.parse(row.status),
    detail: row.detail,
    app_conversation_id: isFinished(row) && row.conversation !== null ? toHexId(row.conversation) : null,
    sandbox_id: row.sandbox,
    agent_server_url: row.agent_url,
    request: JSON.parse(row.request),
    created_at: formatInstant(row.created_at),
    updated_at: formatInstant(row.updated_at),
  }
}
