import {
  formatInstant,
  type Instant,
  invalidInput,
  type SandboxSpec,
  type SandboxSpecInfo,
} from '@slipway/protocol'
import { redact, redactedText } from '@slipway/shared/redaction'
import { createPageIdCodec, unknownPageId } from '@slipway/storage'
import type { PageQuery, RowPage } from '@slipway/storage/control-plane'

export type ResolvedSpec = SandboxSpec & { readonly backend: string }

const pageIds = createPageIdCodec<string>('', (id) => id, String)

/** The templates of sandboxes, the default first. They do not change while the server runs. */
export class SandboxSpecs {
  readonly #specs: ReadonlyMap<string, ResolvedSpec>
  readonly #createdAt: Instant

  /** `specs`: at least one, with different ids. */
  constructor(specs: readonly ResolvedSpec[], createdAt: Instant) {
    this.#specs = new Map(specs.map((spec) => [spec.id, spec]))
    this.#createdAt = createdAt
  }

  list(): readonly ResolvedSpec[] {
    return [...this.#specs.values()]
  }

  find(id: string): ResolvedSpec | undefined {
    return this.#specs.get(id)
  }

  /** The requested spec, or the default. A Problem `invalid` with `loc` for an unknown id. */
  resolve(id: string | undefined, loc: readonly string[] = ['query', 'sandbox_spec_id']): ResolvedSpec {
    const spec = id === undefined ? this.#specs.values().next().value : this.#specs.get(id)
    if (spec === undefined) throw invalidInput(loc, 'There is no such sandbox spec')
    return spec
  }

  getInfo(id: string): SandboxSpecInfo | undefined {
    const spec = this.#specs.get(id)
    return spec && this.#toInfo(spec)
  }

  /** The default first. A Problem `invalid` for a page id that is not of this list. */
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
      initial_env: redact(spec.env, redactedText) as Record<string, string>,
      working_dir: spec.working_dir,
      image: spec.image ?? null,
      backend: spec.backend,
      resources: spec.resources,
      network: spec.network ?? 'private',
      is_default: this.#specs.values().next().value === spec,
    }
  }
}
