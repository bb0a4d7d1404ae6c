import { type Family, type Measures, type Sample, Tally } from '@slipway/protocol'

/**
 * The numbers of a server as text for Prometheus. Nothing is counted here: sources are asked when somebody asks. What the process
 * itself is doing (memory, event loop, garbage) is measured from the first question on, which loads the library for it.
 */
export class Metrics {
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8'
  readonly #sources: Measures[] = []
  #process: Promise<() => Promise<string>> | undefined

  add(...sources: readonly Measures[]): void {
    this.#sources.push(...sources)
  }

  async text(): Promise<string> {
    this.#process ??= processMetrics()
    const families = await Promise.all(this.#sources.map((source) => source()))
    const own = families.flat().map(familyText)
    return `${own.join('\n')}\n${await (await this.#process)()}`
  }
}

async function processMetrics(): Promise<() => Promise<string>> {
  const { collectDefaultMetrics, Registry } = await import('prom-client')
  const register = new Registry()
  collectDefaultMetrics({ register })
  return () => register.metrics()
}

function familyText({ name, help, type, samples }: Family): string {
  const lines = samples.flatMap((sample) => sampleLines(name, sample))
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n')
}

function sampleLines(name: string, { labels = {}, value }: Sample): string[] {
  if (!(value instanceof Tally)) return [`${name}${labelText(labels)} ${value}`]
  let count = 0
  const buckets = value.counts.map((more, at) => {
    count += more
    const le = at < value.bounds.length ? String(value.bounds[at]) : '+Inf'
    return `${name}_bucket${labelText({ ...labels, le })} ${count}`
  })
  const text = labelText(labels)
  return [...buckets, `${name}_sum${text} ${value.sum}`, `${name}_count${text} ${count}`]
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return parts.length === 0 ? '' : `{${parts.join(',')}}`
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
