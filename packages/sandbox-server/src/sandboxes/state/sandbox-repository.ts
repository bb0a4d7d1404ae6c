import { Counts, type SandboxStatus, sandboxStatus, Tallies } from '@slipway/protocol'
import type { SandboxRow, SandboxRows } from '@slipway/storage'
import { Rings } from '../../async/keyed-signal.ts'
import { edges } from '../reconcile/plan.ts'

export type RowMembers = Partial<Omit<SandboxRow, 'id' | 'created_at' | 'changed_at' | 'status'>> & {
  readonly status?: SandboxStatus
}

/** Told before and after each durable write and each call of a backend: tests end the process there. */
export type OnStep = (name: string) => void

/** Steps that a backend does; the others are writes of the ledger. */
const counted: ReadonlySet<string> = new Set(['start', 'resume', 'pause', 'remove', 'init'])

/** What was done to sandboxes, in numbers. */
export class StepNumbers {
  readonly durations = new Tallies([0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300], 'step')
  readonly outcomes = new Counts('step', 'outcome')

  add(step: string, outcome: 'ok' | 'failed', seconds: number): void {
    if (!counted.has(step)) return
    this.durations.add({ step }, seconds)
    this.outcomes.add({ step, outcome })
  }
}

/** The rows of sandboxes. Every change of a status takes a legal edge, is durable before it is told, and rings. */
export class Rows {
  readonly changes = new Rings()
  readonly numbers = new StepNumbers()
  readonly #rows: SandboxRows
  readonly #onStep: OnStep
  readonly #onRunning: (id: string) => void

  /** `onRunning` is told each sandbox that has become RUNNING. */
  constructor(rows: SandboxRows, onStep: OnStep = () => {}, onRunning: (id: string) => void = () => {}) {
    this.#rows = rows
    this.#onStep = onStep
    this.#onRunning = onRunning
  }

  async get(id: string): Promise<SandboxRow | undefined> {
    const [row] = await this.#rows.get([id])
    return row
  }

  async add(row: SandboxRow): Promise<'added' | 'known'> {
    const outcome = await this.step('add', () => this.#rows.add(row))
    this.changes.ring(row.id)
    return outcome === 'added' ? 'added' : 'known'
  }

  /**
   * Changes a row that is still as it was when it was read, as far as others decide about it. Undefined: it is not, so read it
   * and decide again.
   */
  async change(row: SandboxRow, members: RowMembers): Promise<SandboxRow | undefined> {
    mustBeLegal(row.status, members.status)
    const { wanted, status, epoch, owner } = row
    const where = { wanted, status, epoch, owner }
    const changed = await this.step(nameOf(members), () => this.#rows.change(row.id, members, { where }))
    if (changed === undefined) return undefined
    this.changes.ring(row.id)
    if (changed.status === 'RUNNING' && row.status !== 'RUNNING') this.#onRunning(row.id)
    return changed
  }

  /** One of the warm pool becomes somebody's; it is STARTING until it has its settings. */
  async claim(
    spec: string,
    owner: string,
    org: string | null,
    used_at: number,
  ): Promise<SandboxRow | undefined> {
    // The epoch of one that was never started: should it have died unnoticed, it is made for its owner as if it were new.
    const members = { owner, org, status: 'STARTING' satisfies SandboxStatus, epoch: null, used_at }
    const row = await this.step('claim', () => this.#rows.claim(spec, members))
    if (row !== undefined) this.changes.ring(row.id)
    return row
  }

  async remove(id: string): Promise<void> {
    await this.step('forget', () => this.#rows.remove(id))
    this.changes.ring(id)
  }

  async step<T>(name: string, work: () => Promise<T>): Promise<T> {
    this.#onStep(`before ${name}`)
    const startedMs = performance.now()
    let outcome: 'ok' | 'failed' = 'failed'
    try {
      const result = await work()
      outcome = 'ok'
      this.#onStep(`after ${name}`)
      return result
    } finally {
      this.numbers.add(name, outcome, (performance.now() - startedMs) / 1000)
    }
  }
}

export function statusOf({ status }: Pick<SandboxRow, 'status'>): SandboxStatus {
  return sandboxStatus.parse(status)
}

/** Nobody's: it waits in the warm pool. */
export function isPooled({ owner }: Pick<SandboxRow, 'owner'>): boolean {
  return owner === null
}

function mustBeLegal(from: string, to: SandboxStatus | undefined): void {
  if (to === undefined || to === from) return
  if (!edges[sandboxStatus.parse(from)].includes(to)) throw new Error(`a sandbox went from ${from} to ${to}`)
}

function nameOf({ wanted, status }: RowMembers): string {
  return `write ${wanted === undefined ? (status ?? 'members') : `wanted ${wanted}`}`
}
