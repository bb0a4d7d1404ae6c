import type { SandboxRow } from '@slipway/storage'
import type { Backend, ObservedSandbox } from '../../backends/backend.ts'
import { parseSandboxStatus } from '../state/sandbox-repository.ts'
import { plan } from './plan.ts'
import { hasFailureDetail, Worker, type WorkerDeps } from './worker.ts'

export interface ReconcilerOptions extends WorkerDeps {
  readonly iterateRows: () => AsyncIterable<SandboxRow>
}

/** How long a stop waits for steps that are under way; they go on where they were after the next start. */
const stopTimeoutMs = 10_000

/** Keeps what is there as it is wanted: a worker for each sandbox about which something is to be done, and for no other. */
export class Reconciler implements AsyncDisposable {
  readonly #deps: ReconcilerOptions
  readonly #workers = new Map<string, Worker>()
  #isStopping = false

  constructor(options: ReconcilerOptions) {
    this.#deps = options
  }

  /** Something about it has changed. */
  notify(id: string, orphanBackend?: Backend): Worker {
    const worker =
      this.#workers.get(id) ?? new Worker(id, this.#deps, (done) => this.#workers.delete(done.id))
    if (this.#isStopping) return worker
    this.#workers.set(id, worker)
    worker.notify(orphanBackend)
    return worker
  }

  /** Why it cannot go on at the moment. */
  failure(id: string): string | undefined {
    return this.#workers.get(id)?.failure
  }

  /** How many are worked on. */
  get activeWorkers(): number {
    return this.#workers.size
  }

  /**
   * Compares every row with what is there, with one question to each backend, and rings for each difference: answers the workers
   * that it rang for. `visit` is called for each row about which nothing is to be done.
   */
  async reconcileAll(onSettled: (row: SandboxRow) => void = () => {}): Promise<readonly Worker[]> {
    const observed = await this.#observeBackends()
    const notified: Worker[] = []
    // The rows come after the looks: what has just been made has its row already, so it is not taken for a stray.
    for await (const row of this.#deps.iterateRows()) {
      if (this.#isStopping) return notified
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
      for (const id of orphans.keys()) notified.push(this.notify(id, this.#deps.backends.get(name)))
    }
    return notified
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true
    const limit = new Promise((resolve) => setTimeout(resolve, stopTimeoutMs).unref())
    await Promise.race([limit, Promise.all([...this.#workers.values()].map((worker) => worker.stop()))])
    this.#workers.clear()
  }

  #isSettled(row: SandboxRow, observed: ObservedSandbox | undefined): boolean {
    const now = this.#deps.now()
    const times = { now, since: now, graceMs: this.#deps.graceMs }
    return (
      plan({ ...row, status: parseSandboxStatus(row) }, observed, times).kind === 'rest' &&
      !hasFailureDetail(row)
    )
  }

  /** What each backend has; one that does not answer is left out. */
  async #observeBackends(): Promise<Map<string, Map<string, ObservedSandbox>>> {
    const lists = [...this.#deps.backends].map(async ([name, backend]) => {
      try {
        const found = await backend.list()
        return [name, new Map(found.map((one) => [one.id, one]))] as const
      } catch (error) {
        this.#deps.log('warn', 'a backend does not answer', { backend: name, error: String(error) })
        return undefined
      }
    })
    return new Map((await Promise.all(lists)).filter((list) => list !== undefined))
  }
}

/** As far as the row tells by itself, nothing is to be done. */
function isRowSettled({ wanted, status }: SandboxRow): boolean {
  if (status === 'ERROR' || status === 'MISSING') return wanted !== 'gone'
  return status === (wanted === 'running' ? 'RUNNING' : 'PAUSED') && wanted !== 'gone'
}
