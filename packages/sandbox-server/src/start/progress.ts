import {
  type AppConversationStartTask,
  formatInstant,
  type Instant,
  startTaskStatus,
} from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { StartTaskRow, StartTaskRows } from '@slipway/storage/control-plane'
import { toHexId } from '../conversations/records/conversation-ids.ts'

const pollMs = 250

/** A start in progress: its task, and its states from now on until it is READY or ERROR. */
export interface StartStates {
  readonly row: StartTaskRow
  states(): AsyncIterable<StartTaskRow>
}

/** A start in progress: its task, and all states of the task so far. */
export class StartProgress implements StartStates {
  readonly #rows: Pick<StartTaskRows, 'update'>
  readonly #now: () => Instant
  readonly #states: StartTaskRow[]
  readonly #warnings: string[] = []
  #row: StartTaskRow
  #changed = Promise.withResolvers<void>()

  /** The row is stored already. */
  constructor(rows: Pick<StartTaskRows, 'update'>, row: StartTaskRow, now: () => Instant) {
    this.#rows = rows
    this.#row = row
    this.#now = now
    this.#states = [row]
  }

  get row(): StartTaskRow {
    return this.#row
  }

  /** Becomes part of the detail with the next update. */
  addWarning(warning: string): void {
    this.#warnings.push(warning)
  }

  /** Durable when it resolves, and visible only then. `updated_at` always increases. */
  async update(
    members: Partial<Pick<StartTaskRow, 'status' | 'detail' | 'sandbox' | 'agent_url' | 'quota_day'>>,
  ): Promise<void> {
    const detail = this.#warnings.length === 0 ? null : this.#warnings.join('\n')
    const updated_at = Math.max(this.#now(), this.#row.updated_at + 1)
    const change = { detail, ...members, updated_at }
    const row = await this.#rows.update(this.#row.id, change)
    // Deleting the conversation removes the row; watchers still see the end.
    this.#push(row ?? { ...this.#row, ...change })
  }

  /** Shows an end that could not be written. */
  endUnwritten(detail: string): void {
    this.#push({ ...this.#row, status: 'ERROR', detail })
  }

  #push(row: StartTaskRow): void {
    this.#row = row
    this.#states.push(row)
    const { resolve } = this.#changed
    this.#changed = Promise.withResolvers<void>()
    resolve()
  }

  /** Every state of the task from the first, until it is READY or ERROR. */
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

/** A start that another server does, as its task shows it. */
export class RemoteStart implements StartStates {
  readonly #rows: Pick<StartTaskRows, 'get'>
  readonly #clock: Clock
  readonly row: StartTaskRow

  constructor(rows: Pick<StartTaskRows, 'get'>, row: StartTaskRow, clock: Clock) {
    this.#rows = rows
    this.#clock = clock
    this.row = row
  }

  /** The states that a look finds; ends when the task is deleted. */
  async *states(): AsyncGenerator<StartTaskRow> {
    yield this.row
    for (let row: StartTaskRow | undefined = this.row; row !== undefined && !isFinished(row); ) {
      await this.#clock.sleep(pollMs)
      const { updated_at } = row
      row = (await this.#rows.get([row.id]))[0]
      if (row !== undefined && row.updated_at !== updated_at) yield row
    }
  }
}

export function isFinished({ status }: StartTaskRow): boolean {
  return status === 'READY' || status === 'ERROR'
}

/** A start task as its owner sees it (wire 2.4). Only a finished one has the id of its conversation. */
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
