import { Client } from '@slipway/client'
import { formatInstant, must, type SandboxInfo } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import type { SandboxRow } from '@slipway/storage/control-plane'
import type { Isolation, ObservedSandbox } from '../../backends/backend.ts'
import { decodeEndpoint } from '../../network/endpoint.ts'
import { type ExposedUrl, exposedUrls } from '../../network/exposed-urls.ts'
import type { SandboxContext } from './context.ts'
import { findDeletion } from './lifetimes.ts'
import { isPooled, shownStatus } from './sandbox-repository.ts'
import { openSecrets } from './sandbox-secrets.ts'
import { secretValues } from './status-detail.ts'
import { findStatusReason } from './status-reason.ts'

/** How a running sandbox is reached. */
export interface SandboxConnection {
  /** Calls its agent server, with its key. */
  readonly client: Client
  /** Base address from this machine, for `fetch` of Unix sockets too. */
  readonly url: string
  /** Base address that pages use: of this server's origin for a Unix socket. */
  readonly publicUrl: string
  readonly key: Secret
  /** As seen from inside; never empty. */
  readonly workingDir: string
  readonly row: SandboxRow
  /** Its keys and the secrets of its environment, which its output may contain. */
  secrets(): readonly string[]
}

/** Where agents work when neither the spec nor the backend says it (wire 2.6). */
const defaultWorkingDir = '/workspace/project'
/** Sandboxes run foreign code, and an answer takes several times its length in memory. */
const maxAnswerBytes = 32 * 1024 * 1024

const unknownIsolation: SandboxInfo['isolation'] = {
  kind: 'none',
  enforced: [],
  notes: ['The backend does not tell at the moment how it isolates.'],
}

/** Describes sandboxes to their owners and to those who connect to them. */
export class SandboxInfoReader {
  readonly #context: SandboxContext
  readonly #isolations = new Map<string, Promise<Isolation>>()

  constructor(context: SandboxContext) {
    this.#context = context
  }

  getConnection(row: SandboxRow): SandboxConnection | undefined {
    const addresses = this.addresses(row)
    const url = addresses.AGENT_SERVER
    const sandboxSecrets = url === undefined ? undefined : openSecrets(this.#context.cipher, row)
    if (url === undefined || sandboxSecrets === undefined || sandboxSecrets.key === null) return undefined
    const key = new Secret(sandboxSecrets.key)
    const publicUrl = must(this.#exposedUrls(row, addresses)[0], 'the address of an agent server').url
    const workingDir = sandboxSecrets.order.workingDir || decodeEndpoint(row).workingDir || defaultWorkingDir
    const client = new Client({ url, sessionApiKey: key, fetch: this.#context.fetch, maxAnswerBytes })
    return { client, url, publicUrl, key, workingDir, row, secrets: () => secretValues(sandboxSecrets) }
  }

  addresses(row: SandboxRow): Readonly<Record<string, string>> {
    const isRunning = row.status === 'RUNNING' && row.wanted === 'running' && !isPooled(row)
    return isRunning ? decodeEndpoint(row).addresses : {}
  }

  async getInfo(row: SandboxRow): Promise<SandboxInfo> {
    const { specs, getLifetimes, clock } = this.#context
    const connection = this.getConnection(row)
    const spec = specs.find(row.spec)
    const lifetimes = getLifetimes(row.spec)
    const status = shownStatus(row)
    const deletion = findDeletion(row, lifetimes, clock.now() * 1000, row.used_at)
    return {
      id: row.id,
      created_by_user_id: row.owner,
      sandbox_spec_id: row.spec,
      status,
      working_dir: connection?.workingDir ?? (spec?.working_dir || decodeEndpoint(row).workingDir || null),
      session_api_key: connection?.key.reveal() ?? null,
      exposed_urls: connection === undefined ? null : await this.#findExposedUrls(row),
      created_at: formatInstant(row.created_at),
      status_detail: row.detail,
      status_reason: findStatusReason({ ...row, status, spec }),
      isolation: await this.#isolation(row.backend),
      resources: spec?.resources ?? {},
      paused_after_idle_seconds: lifetimes.idleSeconds || null,
      paused_after_seconds: lifetimes.maxSessionSeconds || null,
      deleted_after_paused_seconds: lifetimes.deleteAfterSeconds || null,
      archived: row.wanted === 'archived',
      deletes_at: deletion?.isAnnounced ? formatInstant(deletion.at) : null,
    }
  }

  /** Of an agent server on a Unix socket the address of its port, which it gets here. */
  async #findExposedUrls(row: SandboxRow): Promise<ExposedUrl[]> {
    const { addresses } = decodeEndpoint(row)
    const isUnix = addresses.AGENT_SERVER?.startsWith('http+unix:')
    const port = isUnix ? await this.#context.openPort?.(row.id) : undefined
    return this.#exposedUrls(row, port === undefined ? addresses : { ...addresses, AGENT_SERVER: port })
  }

  #exposedUrls({ id }: SandboxRow, addresses: ObservedSandbox['addresses']): ExposedUrl[] {
    const { publicUrl, expose } = this.#context
    return exposedUrls(id, { addresses }, { publicUrl: publicUrl(), expose })
  }

  async #isolation(name: string): Promise<SandboxInfo['isolation']> {
    const backend = this.#context.backends.get(name)
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
