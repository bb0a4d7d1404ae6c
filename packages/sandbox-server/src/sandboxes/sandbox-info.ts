import { Client } from '@slipway/client'
import { formatInstant, must, type SandboxInfo } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import type { SandboxRow } from '@slipway/storage'
import type { Backend, Isolation } from '../backends/backend.ts'
import { decodeEndpoint } from '../network/endpoint.ts'
import { type Expose, type ExposedUrl, exposedUrls } from '../network/exposed-urls.ts'
import type { Lifetimes } from './lifetimes/lifetimes.ts'
import type { SandboxSpecs } from './specs.ts'
import { isPooled, parseSandboxStatus } from './state/sandbox-repository.ts'
import type { SandboxSecretsCipher } from './state/sandbox-secrets.ts'
import { secretValues } from './state/status-detail.ts'

/** How a running sandbox is reached. */
export interface SandboxConnection {
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

export interface SandboxInfoOptions {
  readonly specs: SandboxSpecs
  readonly backends: ReadonlyMap<string, Backend>
  readonly secretsCipher: SandboxSecretsCipher
  readonly fetch: typeof globalThis.fetch
  readonly getLifetimes: (row: SandboxRow) => Lifetimes
  readonly publicUrl: () => string
  readonly expose: Expose
}

/** Where agents work when neither the spec nor the backend says it (wire 2.6). */
const defaultWorkingDir = '/workspace/project'

/** Never more than is true. */
const unknownIsolation: SandboxInfo['isolation'] = {
  kind: 'none',
  enforced: [],
  notes: ['The backend does not tell at the moment how it isolates.'],
}

/** What is told of a sandbox: to its owner, and to those who talk to it. */
export class SandboxInfoReader {
  readonly #options: SandboxInfoOptions
  readonly #isolations = new Map<string, Promise<Isolation>>()

  constructor(options: SandboxInfoOptions) {
    this.#options = options
  }

  /** Undefined unless it is RUNNING, and is to stay so. */
  getConnection(row: SandboxRow): SandboxConnection | undefined {
    const url = this.addresses(row).AGENT_SERVER
    const sandboxSecrets = url === undefined ? undefined : this.#options.secretsCipher.open(row)
    if (url === undefined || sandboxSecrets === undefined || sandboxSecrets.key === null) return undefined
    const key = new Secret(sandboxSecrets.key)
    const publicUrl = must(this.#exposedUrls(row)[0], 'the address of an agent server').url
    const workingDir = sandboxSecrets.order.workingDir || decodeEndpoint(row).workingDir || defaultWorkingDir
    const client = new Client({ url, sessionApiKey: key, fetch: this.#options.fetch })
    return { client, url, publicUrl, key, workingDir, row, secrets: () => secretValues(sandboxSecrets) }
  }

  /** Where it is reached from this machine, by name of the wire; empty unless it runs. */
  addresses(row: SandboxRow): Readonly<Record<string, string>> {
    const isRunning = row.status === 'RUNNING' && row.wanted === 'running' && !isPooled(row)
    return isRunning ? decodeEndpoint(row).addresses : {}
  }

  /** As its owner sees it (wire 2.5). */
  async getInfo(row: SandboxRow): Promise<SandboxInfo> {
    const { specs, getLifetimes } = this.#options
    const connection = this.getConnection(row)
    const spec = specs.find(row.spec)
    const lifetimes = getLifetimes(row)
    return {
      id: row.id,
      created_by_user_id: row.owner,
      sandbox_spec_id: row.spec,
      status: parseSandboxStatus(row),
      working_dir: connection?.workingDir ?? (spec?.working_dir || decodeEndpoint(row).workingDir || null),
      session_api_key: connection?.key.reveal() ?? null,
      exposed_urls: connection === undefined ? null : this.#exposedUrls(row),
      created_at: formatInstant(row.created_at),
      status_detail: row.detail,
      isolation: await this.#isolation(row.backend),
      resources: spec?.resources ?? {},
      paused_after_idle_seconds: lifetimes.idleSeconds || null,
      paused_after_seconds: lifetimes.maxSessionSeconds || null,
      deleted_after_paused_seconds: lifetimes.deleteAfterSeconds || null,
    }
  }

  #exposedUrls(row: SandboxRow): ExposedUrl[] {
    const { publicUrl, expose } = this.#options
    return exposedUrls(row.id, decodeEndpoint(row), { publicUrl: publicUrl(), expose })
  }

  async #isolation(name: string): Promise<SandboxInfo['isolation']> {
    const backend = this.#options.backends.get(name)
    const isolation = this.#isolations.get(name) ?? backend?.isolation()
    if (isolation === undefined) return unknownIsolation
    this.#isolations.set(name, isolation)
    try {
      const { kind, enforced, notes } = await isolation
      return { kind, enforced: [...enforced], notes: [...notes] }
    } catch {
      this.#isolations.delete(name)
      return unknownIsolation
    }
  }
}
