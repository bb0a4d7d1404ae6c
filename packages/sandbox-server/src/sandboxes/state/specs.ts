import {
  formatInstant,
  type Instant,
  invalidInput,
  type SandboxSpec,
  type SandboxSpecInfo,
} from '@slipway/protocol'
import { redact, redactedText } from '@slipway/shared/redaction'
import { type PageQuery, pageOfList, type RowPage } from '@slipway/storage/control-plane'

export type ResolvedSpec = SandboxSpec & { readonly backend: string }

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
  listPage(query: PageQuery): RowPage<SandboxSpecInfo> {
    const { items, next_page_id } = pageOfList(this.list(), ({ id }) => id, query)
    return { items: items.map((spec) => this.#toInfo(spec)), next_page_id }
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
