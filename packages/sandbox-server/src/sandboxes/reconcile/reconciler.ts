import type { SandboxRow } from '@slipway/storage'
import type { Backend, Seen } from '../../backends/backend.ts'
import { statusOf } from '../state/sandbox-repository.ts'
import { plan } from './plan.ts'
import { type Surroundings, tellsOfFailure, Worker } from './worker.ts'

export interface ReconcilerOptions extends Surroundings {
  readonly all: () => AsyncIterable<SandboxRow>
}

/** How long a stop waits for steps that are under way; they go on where they were after the next start. */
const stopMs = 10_000

/** Keeps what is there as it is wanted: a worker for each sandbox about which something is to be done, and for no other. */
export class Reconciler implements AsyncDisposable {
  readonly #at: ReconcilerOptions
  readonly #workers = new Map<string, Worker>()
  #isStopping = false

  constructor(options: ReconcilerOptions) {
    this.#at = options
  }

  /** Something about it has changed. */
  ring(id: string, stray?: Backend): Worker {
    const worker = this.#workers.get(id) ?? new Worker(id, this.#at, (done) => this.#workers.delete(done.id))
    if (this.#isStopping) return worker
    this.#workers.set(id, worker)
    worker.ring(stray)
    return worker
  }

  /** Why it cannot go on at the moment. */
  failure(id: string): string | undefined {
    return this.#workers.get(id)?.failure
  }

  /** How many are worked on. */
  get busy(): number {
    return this.#workers.size
  }

  /**
   * Compares every row with what is there, with one question to each backend, and rings for each difference: answers the workers
   * that it rang for. `visit` is called for each row about which nothing is to be done.
   */
  async sweep(visit: (row: SandboxRow) => void = () => {}): Promise<readonly Worker[]> {
    const seen = await this.#seen()
    const rung: Worker[] = []
    // The rows come after the looks: what has just been made has its row already, so it is not taken for a stray.
    for await (const row of this.#at.all()) {
      if (this.#isStopping) return rung
      const there = seen.get(row.backend)
      const mine = there?.get(row.id)
      there?.delete(row.id)
      if (this.#workers.has(row.id)) continue
      const isSettled = there === undefined ? isQuiet(row) : this.#isSettled(row, mine)
      if (!isSettled) rung.push(this.ring(row.id))
      else if (there !== undefined) visit(row)
    }
    for (const [name, left] of seen) {
      for (const id of left.keys()) rung.push(this.ring(id, this.#at.backends.get(name)))
    }
    return rung
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true
    const limit = new Promise((resolve) => setTimeout(resolve, stopMs).unref())
    await Promise.race([limit, Promise.all([...this.#workers.values()].map((worker) => worker.stop()))])
    this.#workers.clear()
  }

  #isSettled(row: SandboxRow, seen: Seen | undefined): boolean {
    const now = this.#at.now()
    const times = { now, since: now, graceMs: this.#at.graceMs }
    return plan({ ...row, status: statusOf(row) }, seen, times).kind === 'rest' && !tellsOfFailure(row)
  }

  /** What each backend has; one that does not answer is left out. */
  async #seen(): Promise<Map<string, Map<string, Seen>>> {
    const lists = [...this.#at.backends].map(async ([name, backend]) => {
      try {
        const found = await backend.list()
        return [name, new Map(found.map((one) => [one.id, one]))] as const
      } catch (error) {
        this.#at.log('warn', 'a backend does not answer', { backend: name, error: String(error) })
        return undefined
      }
    })
    return new Map((await Promise.all(lists)).filter((list) => list !== undefined))
  }
}

/** As far as the row tells by itself, nothing is to be done. */
function isQuiet({ wanted, status }: SandboxRow): boolean {
  if (status === 'ERROR' || status === 'MISSING') return wanted !== 'gone'
  return status === (wanted === 'running' ? 'RUNNING' : 'PAUSED') && wanted !== 'gone'
}
