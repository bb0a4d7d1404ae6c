import type { Metric } from 'prom-client'
// The front door also loads 90 modules that measure the process, which are needed once metrics are asked for.
import Counter from 'prom-client/lib/counter.js'
import Gauge from 'prom-client/lib/gauge.js'
import Histogram from 'prom-client/lib/histogram.js'
import Registry from 'prom-client/lib/registry.js'

export type { Counter, Gauge, Histogram, Metric }
export { Registry }

/**
 * A counter that belongs to no registry yet. Values of labels come from closed sets: never an id, a path or a
 * user's text.
 */
export function createCounter<L extends string = never>(
  name: string,
  help: string,
  ...labelNames: readonly L[]
): Counter<L> {
  return new Counter({ name, help, labelNames, registers: [] })
}

/** A histogram, likewise. */
export function createHistogram<L extends string = never>(
  name: string,
  help: string,
  buckets: readonly number[],
  ...labelNames: readonly L[]
): Histogram<L> {
  return new Histogram({ name, help, buckets: [...buckets], labelNames, registers: [] })
}

/** A gauge, likewise; with `read` it has the value that `read` returns at its collection. */
export function createGauge(name: string, help: string, read?: () => number): Gauge {
  const collect = read && { collect: () => gauge.set(read()) }
  const gauge: Gauge = new Gauge({ name, help, registers: [], ...collect })
  return gauge
}

/**
 * A gauge with one label, whose values `read` returns at its collection; it has none when `read` fails, and the
 * other metrics remain.
 */
export function createLabeledGauge<L extends string>(
  name: string,
  help: string,
  label: L,
  read: () => Promise<Iterable<readonly [string, number]>>,
): Gauge<L> {
  const gauge: Gauge<L> = new Gauge({
    name,
    help,
    labelNames: [label],
    registers: [],
    collect: async () => {
      gauge.reset()
      const values = await read().catch(() => [])
      for (const [value, count] of values) gauge.labels(value).set(count)
    },
  })
  return gauge
}
