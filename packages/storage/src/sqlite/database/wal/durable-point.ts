import { setTimeout as pause } from 'node:timers/promises'

const pollMs = 5
/** Places of the two numbers of commits. */
const [begun, durable] = [0, 1] as const

/**
 * Whether what other threads read in a database is durable: SQLite shows them a commit before the sync of
 * another thread has ended. What is made of it elsewhere must not outlive it.
 */
export class DurablePoint {
  /** Of all threads. */
  readonly shared = new BigInt64Array(new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT))

  /** Before a commit that is not synced. */
  begin(): void {
    Atomics.add(this.shared, begun, 1n)
  }

  /** Everything that was committed is durable. */
  reach(): void {
    Atomics.store(this.shared, durable, Atomics.load(this.shared, begun))
  }
}

/** In another thread: resolves when everything that it has read so far is durable. */
export async function untilDurable(shared: DurablePoint['shared']): Promise<void> {
  const last = Atomics.load(shared, begun)
  while (Atomics.load(shared, durable) < last) await pause(pollMs)
}
