import {
  formatInstant,
  type Instant,
  invalidInput,
  type SandboxSpec,
  type SandboxSpecInfo,
} from '@slipway/protocol'
import { redact, redactedText } from '@slipway/shared/redaction'
import { PageIdCodec, type PageQuery, type RowPage, unknownPageId } from '@slipway/storage'

export type ResolvedSpec = SandboxSpec & { readonly backend: string }

const pageIds = new PageIdCodec<string>('', (id) => id, String)

/** The templates that sandboxes are made from, the default first. They are fixed for as long as the server runs. */
export class SandboxSpecs {
  readonly #specs: ReadonlyMap<string, ResolvedSpec>
  readonly #createdAt: Instant

  /**
   * `backends`: names of those that are configured, the first one is for specs that name none. Throws an Error that says which
   * spec cannot be used.
   */
  constructor(specs: readonly SandboxSpec[], backends: readonly string[], createdAt: Instant) {
    const resolved = specs.map((spec) => resolveSpec(spec, backends))
    this.#specs = new Map(resolved.map((spec) => [spec.id, spec]))
    this.#createdAt = createdAt
    if (resolved.length === 0) throw new Error('there is no sandbox spec')
    const duplicate = resolved.find((spec) => this.#specs.get(spec.id) !== spec)
    if (duplicate !== undefined) throw new Error(`there are two sandbox specs with the id ${duplicate.id}`)
  }

  list(): readonly ResolvedSpec[] {
    return [...this.#specs.values()]
  }

  find(id: string): ResolvedSpec | undefined {
    return this.#specs.get(id)
  }

  /** The one asked for, or the default. A Problem `invalid` for one that is not there. */
  resolve(id: string | undefined): ResolvedSpec {
    const spec = id === undefined ? this.#specs.values().next().value : this.#specs.get(id)
    if (spec === undefined) throw invalidInput(['query', 'sandbox_spec_id'], 'There is no such sandbox spec')
    return spec
  }

  getInfo(id: string): SandboxSpecInfo | undefined {
    const spec = this.#specs.get(id)
    return spec && this.#toInfo(spec)
  }

  /** The default first. A page id that is not of this list is a Problem `invalid`. */
  listPage({ limit, page_id }: PageQuery): RowPage<SandboxSpecInfo> {
    const specs = this.list()
    const start = page_id === undefined ? 0 : specs.findIndex(({ id }) => id === pageIds.decode(page_id))
    if (start === -1) throw unknownPageId()
    const next = specs[start + limit]
    const items = specs.slice(start, start + limit).map((spec) => this.#toInfo(spec))
    return { items, next_page_id: next === undefined ? null : pageIds.encode(next.id) }
  }

  #toInfo(spec: ResolvedSpec): SandboxSpecInfo {
    return {
      id: spec.id,
      command: spec.command.length === 0 ? null : [...spec.command],
      created_at: formatInstant(this.#createdAt),
      initial_env: redactEnv(spec.env),
      working_dir: spec.working_dir,
      image: spec.image ?? null,
      backend: spec.backend,
      resources: spec.resources,
      network: spec.network,
      is_default: this.#specs.values().next().value === spec,
    }
  }
}

function resolveSpec(spec: SandboxSpec, backends: readonly string[]): ResolvedSpec {
  const backend = spec.backend ?? backends[0]
  if (backend === undefined || !backends.includes(backend)) {
    throw new Error(`the sandbox spec ${spec.id} names the backend ${backend}, which is not configured`)
  }
  return { ...spec, backend }
}

function redactEnv(env: Readonly<Record<string, string>>): Record<string, string> {
  return redact(env, redactedText) as Record<string, string>
}
