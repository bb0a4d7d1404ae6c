/**
 * Numbers that are counted where something happens and read when somebody asks. Counting is a few additions. Labels are of
 * closed sets: never an id, a path, or a text of a user.
 */
export interface MetricFamily {
  /** `slipway_model_calls_total`; times are in seconds, sizes in bytes. */
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly samples: readonly MetricSample[]
}

export interface MetricSample {
  readonly labels?: Readonly<Record<string, string>>
  readonly value: number | Histogram
}

/** A family of ours; its name is given without `slipway_`. */
export function metricFamily(
  name: string,
  type: MetricFamily['type'],
  help: string,
  samples: MetricFamily['samples'],
): MetricFamily {
  return { name: `slipway_${name}`, help, type, samples }
}

/** What gives its numbers when it is asked. */
export type MetricsCollector = () => readonly MetricFamily[] | Promise<readonly MetricFamily[]>

/** Seconds, from what is quick to what is slow. */
export const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]

/** Values by size: how many were at most as large as each bound. */
export class Histogram {
  readonly buckets: readonly number[]
  /** Of each bound those that were not counted at a smaller one; then those above all bounds. */
  readonly bucketCounts: number[]
  sum = 0

  constructor(bounds: readonly number[] = durationBuckets) {
    this.buckets = bounds
    this.bucketCounts = [...bounds.map(() => 0), 0]
  }

  observe(value: number): void {
    const { buckets, bucketCounts } = this
    let index = 0
    while (index < buckets.length && value > (buckets[index] ?? 0)) index++
    bucketCounts[index] = (bucketCounts[index] ?? 0) + 1
    this.sum += value
  }

  get count(): number {
    return this.bucketCounts.reduce((total, count) => total + count, 0)
  }
}

/** How often something happened, or how much there was of it, by the values of labels. */
export class CounterVec<L extends string = never> {
  readonly #labels: readonly L[]
  readonly #values = new Map<string, { readonly labels: Readonly<Record<L, string>>; value: number }>()

  constructor(...labels: readonly L[]) {
    this.#labels = labels
  }

  increment(labels: Readonly<Record<L, string>>, amount = 1): void {
    const key = labelKey(this.#labels, labels)
    const existing = this.#values.get(key)
    if (existing === undefined) this.#values.set(key, { labels, value: amount })
    else existing.value += amount
  }

  get samples(): readonly MetricSample[] {
    return [...this.#values.values()].map(({ labels, value }) => ({ labels, value }))
  }
}

/** Tallies by the values of labels. */
export class HistogramVec<L extends string = never> {
  readonly #labels: readonly L[]
  readonly #buckets: readonly number[]
  readonly #values = new Map<
    string,
    { readonly labels: Readonly<Record<L, string>>; readonly value: Histogram }
  >()

  constructor(bounds: readonly number[], ...labels: readonly L[]) {
    this.#buckets = bounds
    this.#labels = labels
  }

  observe(labels: Readonly<Record<L, string>>, value: number): void {
    const key = labelKey(this.#labels, labels)
    const existing = this.#values.get(key) ?? { labels, value: new Histogram(this.#buckets) }
    this.#values.set(key, existing)
    existing.value.observe(value)
  }

  get samples(): readonly MetricSample[] {
    return [...this.#values.values()]
  }
}

function labelKey<L extends string>(names: readonly L[], labels: Readonly<Record<L, string>>): string {
  return names.map((name) => labels[name]).join('\n')
}
