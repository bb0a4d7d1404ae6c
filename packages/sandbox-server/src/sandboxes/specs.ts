import {
  formatInstant,
  type Instant,
  invalid,
  redact,
  type SandboxSpec,
  type SandboxSpecInfo,
} from '@slipway/protocol'
import type { PageQuery, RowPage } from '@slipway/storage'

export type PlacedSpec = SandboxSpec & { readonly backend: string }

const mask = '**********'

/** The templates that sandboxes are made from, the default first. They are fixed for as long as the server runs. */
export class Specs {
  readonly #specs: ReadonlyMap<string, PlacedSpec>
  readonly #since: Instant

  /**
   * `backends`: names of those that are configured, the first one is for specs that name none. Throws an Error that says which
   * spec cannot be used.
   */
  constructor(specs: readonly SandboxSpec[], backends: readonly string[], since: Instant) {
    const placed = specs.map((spec) => placedSpec(spec, backends))
    this.#specs = new Map(placed.map((spec) => [spec.id, spec]))
    this.#since = since
    if (placed.length === 0) throw new Error('there is no sandbox spec')
    const double = placed.find((spec) => this.#specs.get(spec.id) !== spec)
    if (double !== undefined) throw new Error(`there are two sandbox specs with the id ${double.id}`)
  }

  all(): readonly PlacedSpec[] {
    return [...this.#specs.values()]
  }

  find(id: string): PlacedSpec | undefined {
    return this.#specs.get(id)
  }

  /** The one asked for, or the default. A Problem `invalid` for one that is not there. */
  choose(id: string | undefined): PlacedSpec {
    const spec = id === undefined ? this.#specs.values().next().value : this.#specs.get(id)
    if (spec === undefined) throw invalid(['query', 'sandbox_spec_id'], 'There is no such sandbox spec')
    return spec
  }

  info(id: string): SandboxSpecInfo | undefined {
    const spec = this.#specs.get(id)
    return spec && this.#shown(spec)
  }

  /** The default first. A page id that is not of this list is a Problem `invalid`. */
  page({ limit, page_id }: PageQuery): RowPage<SandboxSpecInfo> {
    const specs = this.all()
    const start = page_id === undefined ? 0 : specs.findIndex(({ id }) => pageId(id) === page_id)
    if (start === -1) throw invalid(['query', 'page_id'], 'This is no page of this list')
    const next = specs[start + limit]
    const items = specs.slice(start, start + limit).map((spec) => this.#shown(spec))
    return { items, next_page_id: next === undefined ? null : pageId(next.id) }
  }

  #shown(spec: PlacedSpec): SandboxSpecInfo {
    return {
      id: spec.id,
      command: spec.command.length === 0 ? null : [...spec.command],
      created_at: formatInstant(this.#since),
      initial_env: redacted(spec.env),
      working_dir: spec.working_dir,
      image: spec.image ?? null,
      backend: spec.backend,
      resources: spec.resources,
      network: spec.network,
      is_default: this.#specs.values().next().value === spec,
    }
  }
}

function placedSpec(spec: SandboxSpec, backends: readonly string[]): PlacedSpec {
  const backend = spec.backend ?? backends[0]
  if (backend === undefined || !backends.includes(backend)) {
    throw new Error(`the sandbox spec ${spec.id} names the backend ${backend}, which is not configured`)
  }
  return { ...spec, backend }
}

function redacted(env: Readonly<Record<string, string>>): Record<string, string> {
  return redact(env, mask) as Record<string, string>
}

function pageId(id: string): string {
  return Buffer.from(id).toString('base64url')
}
