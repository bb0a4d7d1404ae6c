import { Problem } from '@slipway/protocol'
import type { SandboxActor, SandboxRow } from '@slipway/storage/control-plane'
import type { Reconciler } from './reconcile/reconciler.ts'
import { failureReason, hasFailureDetail } from './reconcile/worker.ts'
import type { SandboxContext } from './state/context.ts'
import { isPresent, type SandboxRowUpdate, shownStatus } from './state/sandbox-repository.ts'

type DesiredStateDeps = SandboxContext & { readonly reconciler: Reconciler }

/** Why a desired change is not made yet; it is tried again. */
interface Delay {
  /** Its backend fails; otherwise it takes longer than requests wait. */
  readonly isFailure: boolean
  readonly why: string
}

/** The desired state of sandboxes: written to the row first, then the reconciler makes it true. */
export class DesiredStateWriter {
  readonly #deps: DesiredStateDeps

  constructor(deps: DesiredStateDeps) {
    this.#deps = deps
  }

  /** Sandboxes of any owner, in the order of the ids; undefined for unknown, pooled and removed ones. */
  async find(ids: readonly string[]): Promise<(SandboxRow | undefined)[]> {
    return (await this.#deps.rows.get(ids)).map((row) => (isPresent(row) ? row : undefined))
  }

  /** A Problem `not_found` when there is none. */
  async get(id: string): Promise<SandboxRow> {
    const [row] = await this.find([id])
    if (row === undefined) throw notFoundProblem()
    return row
  }

  /** Writes what `decide` returns for the current row; undefined: there is nothing to write. */
  async update(
    id: string,
    decide: (row: SandboxRow) => SandboxRowUpdate | undefined,
    by?: SandboxActor,
  ): Promise<void> {
    for (;;) {
      const row = await this.get(id)
      const members = decide(row)
      if (members === undefined || (await this.#deps.repository.update(row, members, by)) !== undefined) break
    }
    this.#deps.reconciler.notify(id)
  }

  /** Resolves when it is paused, which is stored with `note`. A Problem `conflict` in ERROR and MISSING, `unavailable` for a retry. */
  async pause(id: string, note: SandboxRowUpdate = {}, by?: SandboxActor): Promise<void> {
    const requirePausable = (row: SandboxRow) => {
      const status = shownStatus(row)
      if (status === 'ERROR' || status === 'MISSING')
        throw new Problem('conflict', `A sandbox in ${status} cannot be paused`)
    }
    const decide = (row: SandboxRow): SandboxRowUpdate | undefined => {
      if (row.wanted === 'paused') return undefined
      requirePausable(row)
      return { ...note, wanted: 'paused', ...(hasFailureDetail(row) && { detail: null }) }
    }
    await this.update(id, decide, by)
    const delay = await this.waitFor(id, (row) => {
      if (row === undefined || row.wanted !== 'paused' || row.status === 'PAUSED') return true
      requirePausable(row)
      return false
    })
    if (delay !== undefined) throw unavailableProblem(delay.why)
  }

  /** Waits for a row that fits. Returns why there is none yet: its backend fails, or it takes too long. */
  async waitFor(id: string, predicate: (row: SandboxRow | undefined) => boolean): Promise<Delay | undefined> {
    const { repository, answerMs, clock, signal } = this.#deps
    const limit = clock.timeout(answerMs)
    const read = async () => {
      const [row] = await this.find([id])
      if (predicate(row)) return 'fits'
      // Of another server it is in the row.
      const why = this.#deps.reconciler.failure(id) ?? (row && failureReason(row))
      return why === undefined ? undefined : { isFailure: true, why }
    }
    try {
      const found = await repository.until(id, read, AbortSignal.any([limit, signal]))
      return found === 'fits' ? undefined : found
    } catch (error) {
      if (limit.aborted && error === limit.reason) return { isFailure: false, why: 'it takes long' }
      throw error
    }
  }

  /** Resolves when it is as desired, in ERROR or MISSING. A Problem `not_found` when it is deleted. */
  async waitSettled(id: string, signal: AbortSignal): Promise<SandboxRow> {
    const { repository, signal: stopping } = this.#deps
    const read = async () => {
      const row = await this.get(id)
      const desired = row.wanted === 'running' ? 'RUNNING' : 'PAUSED'
      return [desired, 'ERROR', 'MISSING'].includes(shownStatus(row)) ? row : undefined
    }
    return await repository.until(id, read, AbortSignal.any([signal, stopping]))
  }
}

export function notFoundProblem(): Problem {
  return new Problem('not_found', 'There is no such sandbox')
}

/** For `catch`: other errors are thrown again. */
export function ignoreProblem(code: Problem['code']): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof Problem) || error.code !== code) throw error
  }
}

function unavailableProblem(why: string): Problem {
  return new Problem('unavailable', `Not yet: ${why}. It is done as soon as it can be.`)
}
