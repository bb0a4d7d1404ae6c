import { Problem, type SandboxStatus, sandboxStatus } from '@slipway/protocol'
import { KeyedSignal } from '@slipway/shared/async'
import { createCounter, createHistogram } from '@slipway/shared/metrics'
import type { Clock } from '@slipway/shared/time'
import {
  actorOf,
  type ControlPlaneStore,
  type Leases,
  type SandboxActor,
  type SandboxRow,
  type SandboxRows,
} from '@slipway/storage/control-plane'

export type SandboxRowUpdate = Partial<Omit<SandboxRow, 'id' | 'created_at' | 'changed_at' | 'status'>> & {
  readonly status?: SandboxStatus
}

/** Legal changes of a status. RUNNING follows only STARTING: the agent server is asked first. */
export const statusTransitions: Readonly<Record<SandboxStatus, readonly SandboxStatus[]>> = {
  STARTING: ['RUNNING', 'PAUSED', 'ERROR', 'MISSING'],
  RUNNING: ['STARTING', 'PAUSED', 'ERROR', 'MISSING'],
  PAUSED: ['STARTING', 'ERROR', 'MISSING'],
  ERROR: ['STARTING', 'PAUSED', 'MISSING'],
  MISSING: ['STARTING', 'PAUSED', 'ERROR'],
}

/** Called before and after each durable write and each call of a backend: tests end the process there. */
export type OnStep = (name: string) => void

/** Changes by other servers are not notified. */
const sharedPollMs = 250

/** Pauses before a step whose answer may be lost is repeated. */
const repeatMs = [100, 500, 1_000, 2_000]

/** Calls of a backend; the other steps are writes of rows. */
const measuredSteps: ReadonlySet<string> = new Set(['start', 'resume', 'pause', 'stop', 'remove', 'init'])

export class StepMetrics {
  readonly durations = createHistogram(
    'slipway_sandbox_step_duration_seconds',
    'Time of what is done to sandboxes: start, resume, pause, remove.',
    [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
    'step',
  )
  readonly outcomes = createCounter(
    'slipway_sandbox_steps_total',
    'What was done to sandboxes, by outcome.',
    'step',
    'outcome',
  )

  record(step: string, outcome: 'ok' | 'failed', seconds: number): void {
    if (!measuredSteps.has(step)) return
    this.durations.observe({ step }, seconds)
    this.outcomes.inc({ step, outcome })
  }
}

/** The rows of sandboxes. A change of a status is checked, made durable, then notified. */
export class SandboxRepository {
  readonly changes = new KeyedSignal()
  readonly metrics = new StepMetrics()
  readonly #rows: SandboxRows
  readonly #leases: Leases
  readonly #clock: Clock
  readonly #onStep: OnStep
  readonly #onRunning: (id: string) => void

  /** `onRunning` is called for each sandbox that has become RUNNING. */
  constructor(
    { sandboxes, leases }: Pick<ControlPlaneStore, 'sandboxes' | 'leases'>,
    clock: Clock,
    {
      onStep = () => {},
      onRunning = () => {},
    }: {
      readonly onStep?: OnStep | undefined
      readonly onRunning?: ((id: string) => void) | undefined
    },
  ) {
    this.#clock = clock
    this.#rows = sandboxes
    this.#leases = leases
    this.#onStep = onStep
    this.#onRunning = onRunning
  }

  async get(id: string): Promise<SandboxRow | undefined> {
    const [row] = await this.#rows.get([id])
    return row
  }

  async add(row: SandboxRow): Promise<'added' | 'known'> {
    const outcome = await this.runStep('add', () => this.#rows.add(row, { actor: actorOf(row.owner) }))
    this.changes.notify(row.id)
    return outcome
  }

  /** Changes a row, unless its `wanted`, `status`, `epoch` or `owner` differ from it: then undefined. */
  async update(
    row: SandboxRow,
    members: SandboxRowUpdate,
    by?: SandboxActor,
  ): Promise<SandboxRow | undefined> {
    assertLegalTransition(row.status, members.status)
    const { wanted, status, epoch, owner } = row
    const where = { wanted, status, epoch, owner }
    const changed = await this.runStep(stepName(members), () =>
      this.#rows.update(row.id, members, { where, by }),
    )
    if (changed === undefined) return undefined
    this.changes.notify(row.id)
    if (changed.status === 'RUNNING' && row.status !== 'RUNNING') this.#onRunning(row.id)
    return changed
  }

  /** Gives a sandbox of the warm pool an owner: RUNNING where its agent server has answered just before. */
  async claim(
    { id, sealed }: SandboxRow,
    members: Parameters<SandboxRows['claim']>[1],
  ): Promise<SandboxRow | undefined> {
    const row = await this.#repeat('claim', () => this.#rows.claim(id, members, sealed))
    if (row === undefined) return undefined
    this.changes.notify(id)
    if (row.status === 'RUNNING') this.#onRunning(id)
    return row
  }

  /** Only of one that is removed. */
  async remove(id: string): Promise<void> {
    await this.runStep('forget', () => this.#rows.remove(id))
    this.changes.notify(id)
  }

  /** The first value of `read` that is not undefined; reads after each change of the sandbox. */
  until<T>(id: string, read: () => Promise<T | undefined>, signal: AbortSignal): Promise<T> {
    return this.changes.until(
      id,
      read,
      signal,
      this.#leases.isShared ? { clock: this.#clock, ms: sharedPollMs } : undefined,
    )
  }

  /** A step whose first answer may be lost: it is repeated while the storage fails, for some seconds. */
  async #repeat<T>(name: string, work: () => Promise<T>): Promise<T> {
    for (const delayMs of repeatMs) {
      try {
        return await this.runStep(name, work)
      } catch (error) {
        if (!isPassing(error)) throw error
        await this.#clock.sleep(delayMs)
      }
    }
    return await this.runStep(name, work)
  }

  /** Rejects with a Problem `unavailable` when another server may do this work now. */
  async runStep<T>(name: string, work: () => Promise<T>): Promise<T> {
    this.#leases.assertHeld()
    this.#onStep(`before ${name}`)
    const startedMs = performance.now()
    let outcome: 'ok' | 'failed' = 'failed'
    try {
      const result = await work()
      outcome = 'ok'
      this.#onStep(`after ${name}`)
      return result
    } finally {
      this.metrics.record(name, outcome, (performance.now() - startedMs) / 1000)
    }
  }
}

export function parseSandboxStatus({ status }: Pick<SandboxRow, 'status'>): SandboxStatus {
  return sandboxStatus.parse(status)
}

/** As callers see it: nothing is left of an archived one, also while it is being removed. */
export function shownStatus(row: Pick<SandboxRow, 'status' | 'wanted'>): SandboxStatus {
  return row.wanted === 'archived' ? 'MISSING' : parseSandboxStatus(row)
}

/** Whether callers may see it: claimed and not removed. */
export function isPresent(row: SandboxRow | undefined): row is SandboxRow {
  return row !== undefined && !isPooled(row) && row.wanted !== 'gone'
}

export function isPooled({ owner }: Pick<SandboxRow, 'owner'>): boolean {
  return owner === null
}

function assertLegalTransition(from: string, to: SandboxStatus | undefined): void {
  if (to === undefined || to === from) return
  if (!statusTransitions[sandboxStatus.parse(from)].includes(to))
    throw new Error(`a sandbox went from ${from} to ${to}`)
}

/** The storage fails at the moment. */
function isPassing(error: unknown): boolean {
  return error instanceof Problem && error.code === 'unavailable' && error.retryAfterSeconds !== undefined
}

function stepName({ wanted, status }: SandboxRowUpdate): string {
  return `write ${wanted === undefined ? (status ?? 'members') : `wanted ${wanted}`}`
}
