/**
 * The figure that a goal is relative to. It is the time, rate or size of real work in the same run (the same
 * bytes sent by a bare server, the same rows read by a bare statement, the start of a bare Node), so it grows
 * and shrinks with the machine, and a goal of a ratio asks the same of every machine. A number is no floor:
 * the class is nominal, and a floor has the samples of which its figure is taken.
 */
export class Floor {
  /** What was measured: "a bare `node:http` server". */
  readonly name: string
  readonly figure: number
  readonly #isMeasured = true

  private constructor(name: string, figure: number) {
    this.name = name
    this.figure = figure
  }

  /** The median of what was measured, or another percentile (nearest rank); NaN without samples. */
  static of(name: string, samples: readonly number[], percent = 50): Floor {
    return new Floor(name, percentile(samples, percent))
  }

  get isMeasured(): boolean {
    return this.#isMeasured && this.name !== '' && Number.isFinite(this.figure) && this.figure > 0
  }
}

/** Nearest rank: the smallest value that `percent` of all values do not exceed. NaN without values. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN
}
