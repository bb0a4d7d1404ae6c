import type { SandboxRow } from '@slipway/storage/control-plane'
import type { Backend, ObservedSandbox } from '../../backends/backend.ts'
import type { SandboxContext } from '../state/context.ts'
import { parseSandboxStatus } from '../state/sandbox-repository.ts'
import { plan } from './plan.ts'
import { hasFailureDetail, Worker } from './worker.ts'

/** How long a stop waits for current steps; the next start of the server continues them. */
const stopTimeoutMs = 10_000

/** Makes the observed state of all sandboxes equal to the desired one: a worker for each that differs. */
export class Reconciler implements AsyncDisposable {
  readonly #context: SandboxContext
  readonly #workers = new Map<string, Worker>()

  constructor(context: SandboxContext) {
    this.#context = context
  }

  /** Call it after a change of a sandbox. `orphanBackend`: where a sandbox without a row was observed. */
  notify(id: string, orphanBackend?: Backend): Worker {
    const worker = this.#workers.get(id) ?? new Worker(id, this.#context, () => this.#workers.delete(id))
    if (this.#context.signal.aborted) return worker
    this.#workers.set(id, worker)
    worker.notify(orphanBackend)
    return worker
  }

  failure(id: string): string | undefined {
    return this.#workers.get(id)?.failure
  }

  get activeWorkers(): number {
    return this.#workers.size
  }

  /** Returns the workers of all differences between rows and backends; `onSettled` gets the other rows. */
  async reconcileAll(onSettled: (row: SandboxRow) => void): Promise<readonly Worker[]> {
    const observed = await this.#observeBackends()
    const notified: Worker[] = []
    // Rows are read after the lists: a new sandbox has its row first, so it is no orphan.
    for await (const row of this.#context.rows.iterateAll()) {
      if (this.#context.signal.aborted) return notified
      const observedInBackend = observed.get(row.backend)
      const observedSandbox = observedInBackend?.get(row.id)
      observedInBackend?.delete(row.id)
      if (this.#workers.has(row.id)) continue
      const isSettled =
        observedInBackend === undefined ? isRowSettled(row) : this.#isSettled(row, observedSandbox)
      if (!isSettled) notified.push(this.notify(row.id))
      else if (observedInBackend !== undefined) onSettled(row)
    }
    for (const [name, orphans] of observed) {
      for (const id of orphans.keys()) notified.push(this.notify(id, this.#context.backends.get(name)))
    }
    return notified
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const limit = this.#context.clock.sleep(stopTimeoutMs, { ref: false })
    await Promise.race([limit, Promise.all([...this.#workers.values()].map((worker) => worker.stop()))])
    this.#workers.clear()
  }

  #isSettled(row: SandboxRow, observed: ObservedSandbox | undefined): boolean {
    const step = plan({ ...row, status: parseSandboxStatus(row) }, observed, false)
    return step.kind === 'idle' && !hasFailureDetail(row)
  }

  /** The sandboxes of each backend that answers. */
  async #observeBackends(): Promise<Map<string, Map<string, ObservedSandbox>>> {
    const lists = [...this.#context.backends].map(async ([name, backend]) => {
      try {
        const found = await backend.list()
        return [name, new Map(found.map((one) => [one.id, one]))] as const
      } catch (error) {
        this.#context.log('warn', 'a backend does not answer', { backend: name, error: String(error) })
        return undefined
      }
    })
    return new Map((await Promise.all(lists)).filter((list) => list !== undefined))
  }
}

/** Whether the row alone shows no difference. */
function isRowSettled({ wanted, status }: SandboxRow): boolean {
  if (wanted === 'gone') return false
  if (wanted === 'archived') return status === 'MISSING'
  if (status === 'ERROR' || status === 'MISSING') return true
  return status === (wanted === 'running' ? 'RUNNING' : 'PAUSED')
}
