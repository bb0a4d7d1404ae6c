import { setTimeout as pause } from 'node:timers/promises'

/** Longer than the steps of background work are apart. */
const quietMs = 100

/**
 * What happens at a point, which is one statement or commit of a database:
 * - `fail`: refused before it is done; the transaction continues;
 * - `full`: refused, and the transaction is rolled back;
 * - `lose`: done, and its answer is lost;
 * - `cut`: the process or the connection ends before it;
 * - `late`: the connection is lost before it, and the database does it all the same, some time later;
 * - `hang`: done, and its answer does not come before the deadline.
 */
export type Fault = 'fail' | 'full' | 'lose' | 'cut' | 'late' | 'hang'

/** Decides at every point. A simulation passes one that follows a seed. */
export interface FaultPlan {
  next(sql: string): Fault | undefined
}

/** What asks the plan at every point of one database. */
export interface FaultSource {
  plan: FaultPlan
}

export const noFaults: FaultPlan = { next: () => undefined }

/** Records the points of an operation, without a fault. */
export class Trace implements FaultPlan {
  readonly points: string[] = []

  next(sql: string): undefined {
    this.points.push(sql.replace(/\s+/g, ' ').slice(0, 100))
  }

  /** Waits until what an operation has begun in the background is over. */
  async untilQuiet(): Promise<void> {
    for (let seen = -1; seen !== this.points.length; await pause(quietMs)) seen = this.points.length
  }
}

/**
 * A fault at the point with this number, from 0. When it lasts, all points after it fail until the plan ends.
 */
export class FaultAt implements FaultPlan {
  readonly #at: number
  readonly #fault: Fault
  readonly #isLasting: boolean
  #points = 0

  constructor(at: number, fault: Fault, isLasting = false) {
    this.#at = at
    this.#fault = fault
    this.#isLasting = isLasting
  }

  get isReached(): boolean {
    return this.#points > this.#at
  }

  next(): Fault | undefined {
    const point = this.#points++
    if (point === this.#at) return this.#fault
    return this.#isLasting && point > this.#at ? 'fail' : undefined
  }
}
