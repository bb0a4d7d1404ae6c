import { Client } from '@slipway/client'
import { formatInstant, must, type SandboxInfo, Secret } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage'
import type { Backend, Isolation } from '../backends/backend.ts'
import { placeOf } from '../network/endpoint.ts'
import { type Expose, type ExposedUrl, exposedUrls } from '../network/exposed-urls.ts'
import type { Lifetimes } from './lifetimes/lifetimes.ts'
import type { Specs } from './specs.ts'
import { isPooled, statusOf } from './state/sandbox-repository.ts'
import type { Seals } from './state/sandbox-secrets.ts'
import { secretsOf } from './state/status-detail.ts'

/** How a running sandbox is reached. */
export interface Reached {
  /** Calls its agent server, with its key. */
  readonly client: Client
  /** Base address from this machine, for `reach`. */
  readonly url: string
  /** Base address that callers use. */
  readonly publicUrl: string
  readonly key: Secret
  /** As seen from inside; never empty. */
  readonly workingDir: string
  readonly row: SandboxRow
  /** Its keys, and what its environment names as secret: whatever is printed in it may hold them. */
  secrets(): readonly string[]
}

export interface InfosOptions {
  readonly specs: Specs
  readonly backends: ReadonlyMap<string, Backend>
  readonly seals: Seals
  readonly fetch: typeof globalThis.fetch
  readonly lifetimesOf: (row: SandboxRow) => Lifetimes
  readonly publicUrl: () => string
  readonly expose: Expose
}

/** Where agents work when neither the spec nor the backend says it (wire 2.6). */
const usualWorkingDir = '/workspace/project'

/** Never more than is true. */
const unknownIsolation: SandboxInfo['isolation'] = {
  kind: 'none',
  enforced: [],
  notes: ['The backend does not tell at the moment how it isolates.'],
}

/** What is told of a sandbox: to its owner, and to those who talk to it. */
export class Infos {
  readonly #options: InfosOptions
  readonly #isolations = new Map<string, Promise<Isolation>>()

  constructor(options: InfosOptions) {
    this.#options = options
  }

  /** Undefined unless it is RUNNING, and is to stay so. */
  reached(row: SandboxRow): Reached | undefined {
    const url = this.addresses(row).AGENT_SERVER
    const kept = url === undefined ? undefined : this.#options.seals.open(row)
    if (url === undefined || kept === undefined || kept.key === null) return undefined
    const key = new Secret(kept.key)
    const publicUrl = must(this.#exposed(row)[0], 'the address of an agent server').url
    const workingDir = kept.order.workingDir || placeOf(row).workingDir || usualWorkingDir
    const client = new Client({ url, sessionApiKey: key, fetch: this.#options.fetch })
    return { client, url, publicUrl, key, workingDir, row, secrets: () => secretsOf(kept) }
  }

  /** Where it is reached from this machine, by name of the wire; empty unless it runs. */
  addresses(row: SandboxRow): Readonly<Record<string, string>> {
    const isRunning = row.status === 'RUNNING' && row.wanted === 'running' && !isPooled(row)
    return isRunning ? placeOf(row).addresses : {}
  }

  /** As its owner sees it (wire 2.5). */
  async info(row: SandboxRow): Promise<SandboxInfo> {
    const { specs, lifetimesOf } = this.#options
    const reached = this.reached(row)
    const spec = specs.find(row.spec)
    const lifetimes = lifetimesOf(row)
    return {
      id: row.id,
      created_by_user_id: row.owner,
      sandbox_spec_id: row.spec,
      status: statusOf(row),
      working_dir: reached?.workingDir ?? (spec?.working_dir || placeOf(row).workingDir || null),
      session_api_key: reached?.key.open() ?? null,
      exposed_urls: reached === undefined ? null : this.#exposed(row),
      created_at: formatInstant(row.created_at),
      status_detail: row.detail,
      isolation: await this.#isolation(row.backend),
      resources: spec?.resources ?? {},
      paused_after_idle_seconds: lifetimes.idleSeconds || null,
      paused_after_seconds: lifetimes.maxSessionSeconds || null,
      deleted_after_paused_seconds: lifetimes.deleteAfterSeconds || null,
    }
  }

  #exposed(row: SandboxRow): ExposedUrl[] {
    const { publicUrl, expose } = this.#options
    return exposedUrls(row.id, placeOf(row), { publicUrl: publicUrl(), expose })
  }

  async #isolation(name: string): Promise<SandboxInfo['isolation']> {
    const backend = this.#options.backends.get(name)
    const known = this.#isolations.get(name) ?? backend?.isolation()
    if (known === undefined) return unknownIsolation
    this.#isolations.set(name, known)
    try {
      const { kind, enforced, notes } = await known
      return { kind, enforced: [...enforced], notes: [...notes] }
    } catch {
      this.#isolations.delete(name)
      return unknownIsolation
    }
  }
}
