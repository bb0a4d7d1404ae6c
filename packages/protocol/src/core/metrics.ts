/**
 * Numbers that are counted where something happens and read when somebody asks. Counting is a few additions. Labels are of
 * closed sets: never an id, a path, or a text of a user.
 */
export interface Family {
  /** `slipway_model_calls_total`; times are in seconds, sizes in bytes. */
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly samples: readonly Sample[]
}

export interface Sample {
  readonly labels?: Readonly<Record<string, string>>
  readonly value: number | Tally
}

/** A family of ours; its name is given without `slipway_`. */
export function family(name: string, type: Family['type'], help: string, samples: Family['samples']): Family {
  return { name: `slipway_${name}`, help, type, samples }
}

/** What gives its numbers when it is asked. */
export type Measures = () => readonly Family[] | Promise<readonly Family[]>

/** Seconds, from what is quick to what is slow. */
export const secondBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/** Values by size: how many were at most as large as each bound. */
export class Tally {
  readonly bounds: readonly number[]
  /** Of each bound those that were not counted at a smaller one; then those above all bounds. */
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[] = secondBounds) {
    this.bounds = bounds
    this.counts = [...bounds.map(() => 0), 0]
  }

  add(value: number): void {
    const { bounds, counts } = this
    let at = 0
    while (at < bounds.length && value > (bounds[at] ?? 0)) at++
    counts[at] = (counts[at] ?? 0) + 1
    this.sum += value
  }

  get count(): number {
    return this.counts.reduce((total, count) => total + count, 0)
  }
}

/** How often something happened, or how much there was of it, by the values of labels. */
export class Counts<L extends string = never> {
  readonly #labels: readonly L[]
  readonly #values = new Map<string, { readonly labels: Readonly<Record<L, string>>; value: number }>()

  constructor(...labels: readonly L[]) {
    this.#labels = labels
  }

  add(labels: Readonly<Record<L, string>>, by = 1): void {
    const key = keyOf(this.#labels, labels)
    const known = this.#values.get(key)
    if (known === undefined) this.#values.set(key, { labels, value: by })
    else known.value += by
  }

  get samples(): readonly Sample[] {
    return [...this.#values.values()].map(({ labels, value }) => ({ labels, value }))
  }
}

/** Tallies by the values of labels. */
export class Tallies<L extends string = never> {
  readonly #labels: readonly L[]
  readonly #bounds: readonly number[]
  readonly #values = new Map<
    string,
    { readonly labels: Readonly<Record<L, string>>; readonly value: Tally }
  >()

  constructor(bounds: readonly number[], ...labels: readonly L[]) {
    this.#bounds = bounds
    this.#labels = labels
  }

  add(labels: Readonly<Record<L, string>>, value: number): void {
    const key = keyOf(this.#labels, labels)
    const known = this.#values.get(key) ?? { labels, value: new Tally(this.#bounds) }
    this.#values.set(key, known)
    known.value.add(value)
  }

  get samples(): readonly Sample[] {
    return [...this.#values.values()]
  }
}

function keyOf<L extends string>(names: readonly L[], labels: Readonly<Record<L, string>>): string {
  return names.map((name) => labels[name]).join('\n')
}
