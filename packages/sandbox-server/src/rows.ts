import { type SandboxStatus, sandboxStatus } from '@slipway/protocol'
import type { SandboxRow, SandboxRows } from '@slipway/storage'
import { edges } from './plan.ts'
import { Rings } from './rings.ts'

export type RowMembers = Partial<Omit<SandboxRow, 'id' | 'created_at' | 'changed_at' | 'status'>> & {
  readonly status?: SandboxStatus
}

/** Told before and after each durable write and each call of a backend: tests end the process there. */
export type OnStep = (name: string) => void

/** The rows of sandboxes. Every change of a status takes a legal edge, is durable before it is told, and rings. */
export class Rows {
  readonly changes = new Rings()
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
    const result = await work()
    this.#onStep(`after ${name}`)
    return result
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
