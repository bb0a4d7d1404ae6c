import { loadOpenModel } from '@slipway/agent'
import type { ExecutionStatus, LogFunction } from '@slipway/protocol'
import { errorText } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import {
  type ConversationLeases,
  type ConversationRecord,
  type ConversationRecords,
  HeldElsewhereError,
  type Storage,
} from '@slipway/storage'
import { readStoredRequest } from './stored-request.ts'

/** Between two attempts to take a conversation over that cannot be opened. */
const takeoverRetryMs = 5_000

interface RecoveryOptions {
  readonly storage: Storage
  readonly clock: Clock
  readonly log: LogFunction
  /** Default deadline of confirmations; undefined: none. */
  readonly confirmationDeadlineMs: number | undefined
  readonly load: (record: ConversationRecord) => Promise<unknown>
  readonly isLoaded: (id: string) => boolean
  /** Ends all runs, and writes nothing. */
  readonly dropAll: () => Promise<void>
}

/** Opens again what a server that is gone has left running. */
export class Recovery {
  readonly #options: RecoveryOptions
  readonly #takingOver = new Set<string>()

  constructor(options: RecoveryOptions) {
    this.#options = options
  }

  /**
   * Opens the conversations that ran when the process died, whose runs continue, and those with a deadline.
   * Where servers share the data, those of servers that are gone, at any time.
   */
  async recover(): Promise<void> {
    const { storage, load, dropAll } = this.#options
    const { leases } = storage
    if (leases !== undefined) {
      // A takeover must not wait for it.
      void loadOpenModel()
      leases.onLost(dropAll)
      leases.onOrphans((ids) => this.#takeOver(leases, ids))
      return
    }
    for (const status of ['running', 'waiting_for_confirmation'] as const) {
      for (const record of await listByStatus(storage.conversations, status)) {
        if (status === 'running' || this.#hasDeadline(record))
          await load(record).catch((error: unknown) => this.logFailure(record.id, error))
      }
    }
  }

  logFailure(id: string, error: unknown): void {
    const reason = errorText(error)
    this.#options.log('error', 'a conversation cannot be recovered', { conversation: id, reason })
  }

  /** In the background, because a takeover may take longer than a lease. */
  async #takeOver(leases: ConversationLeases, ids: readonly string[]): Promise<void> {
    const { clock, isLoaded } = this.#options
    for (const id of ids) {
      if (this.#takingOver.has(id)) continue
      this.#takingOver.add(id)
      const takeover = this.#takeOverOne(leases, id).catch(async (error: unknown) => {
        if (error instanceof HeldElsewhereError) return
        this.logFailure(id, error)
        // Then any server tries again.
        await clock.sleep(takeoverRetryMs, { ref: false })
        if (!isLoaded(id)) await leases.release(id).catch(() => {})
      })
      void takeover.then(() => this.#takingOver.delete(id))
    }
  }

  async #takeOverOne(leases: ConversationLeases, id: string): Promise<void> {
    const { storage, load } = this.#options
    if (!(await leases.acquire(id)).isOwn) return
    const [record] = await storage.conversations.get([id])
    if (record !== undefined && (record.status === 'running' || this.#hasDeadline(record))) await load(record)
  }

  #hasDeadline(record: ConversationRecord): boolean {
    if (this.#options.confirmationDeadlineMs !== undefined) return true
    const { confirmation_policy: policy } = readStoredRequest(record)
    return policy !== undefined && 'deadline_seconds' in policy
  }
}

/** The oldest first. */
export async function listByStatus(
  conversations: Pick<ConversationRecords, 'search'>,
  status: ExecutionStatus,
): Promise<readonly ConversationRecord[]> {
  const records: ConversationRecord[] = []
  let page_id: string | undefined
  do {
    const page = await conversations.search({ limit: 100, sort_order: 'CREATED_AT', status, page_id })
    records.push(...page.items)
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  return records
}
