import type { Metric } from '@slipway/shared/metrics'
import type { Registry } from 'prom-client'

/** The metrics of a server in the text format of Prometheus. */
export class MetricsRegistry {
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8'
  readonly #sources: (() => readonly Metric[])[] = []
  /**
   * Memory, event loop and garbage collection of the process, measured from the first call of `render` on.
   */
  #process: Registry | undefined

  /** Adds sources that return the metrics of the moment; their names differ. */
  add(...sources: readonly (() => readonly Metric[])[]): void {
    this.#sources.push(...sources)
  }

  async render(): Promise<string> {
    const { collectDefaultMetrics, Registry } = await import('prom-client')
    if (this.#process === undefined) {
      this.#process = new Registry()
      collectDefaultMetrics({ register: this.#process })
    }
    const own = new Registry()
    for (const metric of this.#sources.flatMap((source) => source())) own.registerMetric(metric)
    return `${await own.metrics()}\n${await this.#process.metrics()}`
  }
}
