import { KeyedMutex } from '@slipway/shared/async'

/** The right to do some work, held by one server. */
export interface Lease {
  /** Runs `work`; changes of the store that it makes are refused once another server has the lease. */
  run<T>(work: () => Promise<T>): Promise<T>
  /** Nothing when it was lost. */
  release(): Promise<void>
}

/**
 * Leases among the servers of a control plane. A server that is killed, or frozen for some seconds, loses its
 * leases; what it still writes is refused with a Problem `unavailable`.
 */
export interface Leases {
  /** Whether other servers may use the store at the same time. */
  readonly isShared: boolean
  /** Runs `work` alone: calls with the same key follow each other, in all servers. */
  runExclusive<T>(key: string, work: () => Promise<T>): Promise<T>
  /** Undefined while a server that is alive has it. */
  tryAcquire(name: string): Promise<Lease | undefined>
  /** Takes it from whoever has it. */
  take(name: string): Promise<Lease>
  /** Throws a Problem `unavailable` when the leases of the work that calls may have been lost. */
  assertHeld(): void
}

/** Leases of a store that one server has open. */
export class LocalLeases implements Leases {
  readonly isShared = false
  readonly #mutex = new KeyedMutex()
  readonly #lease: Lease = { run: (work) => work(), release: async () => {} }

  runExclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    return this.#mutex.runExclusive(key, work)
  }

  async tryAcquire(): Promise<Lease> {
    return this.#lease
  }

  async take(): Promise<Lease> {
    return this.#lease
  }

  assertHeld(): void {}
}
