import type { LogFunction } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import { type RemoveConversationDeps, removeConversation } from './remove.ts'

const sweepIntervalMs = 3_600_000
const firstSweepMs = 5_000
/** Statuses in which somebody may continue at any moment. */
const activeStatuses: ReadonlySet<string> = new Set(['running', 'waiting_for_confirmation'])

interface RetentionOptions extends RemoveConversationDeps {
  /** How long a conversation without tags is kept after its last change. */
  readonly retentionMs: number
  readonly clock: Clock
  readonly log: LogFunction
}

/**
 * Deletes conversations without tags that have not changed for long: soon after the start, then every hour.
 */
export function startRetention(options: RetentionOptions): Disposable {
  const { log, clock } = options
  let isClosed = false
  const run = async () => {
    try {
      const count = await sweep(options, () => isClosed)
      if (count > 0) log('info', 'old conversations were deleted', { count })
    } catch (error) {
      log('error', 'old conversations could not be deleted', { error: String(error) })
    }
    if (!isClosed) timer = clock.schedule(sweepIntervalMs, run, { ref: false })
  }
  let timer = clock.schedule(firstSweepMs, run, { ref: false })
  return {
    [Symbol.dispose]() {
      isClosed = true
      timer.cancel()
    },
  }
}

async function sweep(options: RetentionOptions, isClosed: () => boolean): Promise<number> {
  const { storage, retentionMs, clock } = options
  const before = (clock.now() - retentionMs) * 1000
  const old: string[] = []
  for (let page_id: string | undefined, isMore = true; isMore; ) {
    const page = await storage.conversations.search({ limit: 100, sort_order: 'UPDATED_AT', page_id })
    const past = page.items.filter(({ updated_at }) => updated_at < before)
    const removable = past.filter(
      ({ tags, status }) => Object.keys(tags).length === 0 && !activeStatuses.has(status),
    )
    old.push(...removable.map(({ id }) => id))
    page_id = page.next_page_id ?? undefined
    isMore = past.length === page.items.length && page_id !== undefined
  }
  let count = 0
  for (const id of old) {
    if (isClosed()) break
    if (await removeConversation(options, id)) count++
  }
  return count
}
