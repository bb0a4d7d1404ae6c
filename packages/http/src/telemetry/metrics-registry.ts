import { Histogram, type MetricFamily, type MetricSample, type MetricsCollector } from '@slipway/protocol'

/**
 * The numbers of a server as text for Prometheus. Nothing is counted here: sources are asked when somebody asks. What the process
 * itself is doing (memory, event loop, garbage) is measured from the first question on, which loads the library for it.
 */
export class MetricsRegistry {
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8'
  readonly #sources: MetricsCollector[] = []
  #process: Promise<() => Promise<string>> | undefined

  add(...sources: readonly MetricsCollector[]): void {
    this.#sources.push(...sources)
  }

  async render(): Promise<string> {
    this.#process ??= processMetrics()
    const families = await Promise.all(this.#sources.map((source) => source()))
    const lines = families.flat().map(renderFamily)
    return `${lines.join('\n')}\n${await (await this.#process)()}`
  }
}

async function processMetrics(): Promise<() => Promise<string>> {
  const { collectDefaultMetrics, Registry } = await import('prom-client')
  const register = new Registry()
  collectDefaultMetrics({ register })
  return () => register.metrics()
}

function renderFamily({ name, help, type, samples }: MetricFamily): string {
  const lines = samples.flatMap((sample) => renderSample(name, sample))
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n')
}

function renderSample(name: string, { labels = {}, value }: MetricSample): string[] {
  if (!(value instanceof Histogram)) return [`${name}${renderLabels(labels)} ${value}`]
  let count = 0
  const buckets = value.bucketCounts.map((more, at) => {
    count += more
    const le = at < value.buckets.length ? String(value.buckets[at]) : '+Inf'
    return `${name}_bucket${renderLabels({ ...labels, le })} ${count}`
  })
  const text = renderLabels(labels)
  return [...buckets, `${name}_sum${text} ${value.sum}`, `${name}_count${text} ${count}`]
}

function renderLabels(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
