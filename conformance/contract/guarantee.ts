/** What a guarantee's program measured: names in plain words with numbers or short texts. */
export type Figures = Readonly<Record<string, number | string>>

/** A promise of CONTRACT.md and the program that shows it. */
export interface Guarantee {
  /** The promise, as CONTRACT.md words it. */
  readonly promise: string
  /** What one round does. */
  readonly round: string
  /** The share of the requested rounds that this guarantee runs, because some rounds take long. */
  readonly share?: number
  /** Rounds after which a long run can be recorded and ended; without it all rounds belong together. */
  readonly partRounds?: number
  /** How long a round takes: `--minutes` runs as many as fit. */
  readonly roundSeconds?: number
  /** Why it cannot be shown on this machine; undefined when it can. */
  whyUnavailable?(): string | undefined
  /** Runs that many rounds. Rejects when the promise is broken. */
  run(rounds: number): Promise<Figures>
}

/** How many rounds a guarantee runs of those requested, or in that time; at least 1. */
export function roundsOf(guarantee: Guarantee, requested: number, minutes?: number): number {
  if (minutes !== undefined && guarantee.roundSeconds !== undefined)
    return Math.max(1, Math.round((minutes * 60) / guarantee.roundSeconds))
  return Math.max(1, Math.round(requested * (guarantee.share ?? 1)))
}

/** The value at a share (0 to 1) of the sorted numbers. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
