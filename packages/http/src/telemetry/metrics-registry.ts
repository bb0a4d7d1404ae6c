import { createRequire } from 'node:module'
import { type Metric, Registry } from '@slipway/shared/metrics'

/** Modules that measure the process. */
type ProcessMetrics = Pick<typeof import('prom-client'), 'collectDefaultMetrics'>

const require = createRequire(import.meta.url)

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

  /** What can be read at the moment: without descriptors, for one, the others remain. */
  async render(): Promise<string> {
    const own = new Registry()
    for (const metric of this.#sources.flatMap((source) => source())) own.registerMetric(metric)
    const registries = [own, this.#processMetrics()].filter((registry) => registry !== undefined)
    const texts = await Promise.all(
      registries.flatMap((registry) =>
        registry
          .getMetricsAsArray()
          .map(({ name }) =>
            registry.getSingleMetricAsString(name).catch(() => `# ${name} cannot be read at the moment`),
          ),
      ),
    )
    return `${texts.join('\n\n')}\n`
  }

  /** Loaded again when that failed: a failed `import` is remembered for ever. */
  #processMetrics(): Registry | undefined {
    if (this.#process !== undefined) return this.#process
    try {
      const { collectDefaultMetrics }: ProcessMetrics = require('prom-client')
      const register = new Registry()
      collectDefaultMetrics({ register })
      this.#process = register
    } catch {
      return undefined
    }
    return this.#process
  }
}
