import { Problem } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage'

export interface ConcurrencyLimitOptions {
  /** How many sandboxes of one owner may run at the same time; 0: as many as they like. */
  readonly maxSandboxes: number
  /** What happens to one more: it is refused, or one that is idle is paused for it. */
  readonly policy: 'refuse' | 'pause_idle'
}

/** What a cap knows of the sandboxes. */
export interface RunningSandboxes {
  /** Those of an owner that are wanted running, the one used longest ago first. */
  listRunning(owner: string | null): Promise<readonly SandboxRow[]>
  /** Whether it says itself that nothing runs in it and nobody uses it. */
  isIdle(row: SandboxRow): Promise<boolean>
  pause(row: SandboxRow): Promise<void>
}

/** How many sandboxes of an owner run. Those in ERROR and MISSING do not count. */
export class ConcurrencyLimit {
  readonly #options: ConcurrencyLimitOptions
  readonly #sandboxes: RunningSandboxes

  constructor(options: ConcurrencyLimitOptions, sandboxes: RunningSandboxes) {
    this.#options = options
    this.#sandboxes = sandboxes
  }

  /**
   * Resolves when one more may run; a Problem `too_many` when it may not. One that works, or starts, is never paused for it. The
   * caller lets one at a time ask for each owner. `except`: the one that is to run, which is not counted.
   */
  async ensureCapacity(owner: string | null, except?: string): Promise<void> {
    const { maxSandboxes: limit, policy } = this.#options
    if (limit <= 0) return
    const others = (await this.#sandboxes.listRunning(owner)).filter(
      ({ id, status }) => id !== except && (status === 'RUNNING' || status === 'STARTING'),
    )
    let current = others.length
    if (policy === 'pause_idle') {
      for (const row of others) {
        if (current < limit) return
        if (await this.#pauseIfIdle(row)) current -= 1
      }
    }
    if (current < limit) return
    const hint = policy === 'refuse' ? '' : ', and none of them is idle'
    throw new Problem(
      'too_many',
      `${current} sandboxes of yours run and ${limit} may${hint}: pause or delete one first.`,
      undefined,
      { error: 'CONCURRENCY_LIMIT_REACHED', limit, current },
    )
  }

  async #pauseIfIdle(row: SandboxRow): Promise<boolean> {
    if (row.status !== 'RUNNING' || !(await this.#sandboxes.isIdle(row))) return false
    try {
      await this.#sandboxes.pause(row)
      return true
    } catch (error) {
      if (error instanceof Problem) return false
      throw error
    }
  }
}
