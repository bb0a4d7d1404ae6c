/**
 * An address without a path for each sandbox whose agent server listens on a Unix socket.
 *
 * Problem: clients of the reference take the address of an agent server for an origin: they compare it with
 * what their library makes of it, or replace its path. So `…/sandboxes/{id}/agent` works for some only.
 *
 * Idea: a port of this server for each sandbox, which forwards to the socket as the relay does. The kernel
 * chooses it when the address is asked for first; its number is stored, because clients keep the address.
 *
 * Invariants:
 * - A port stands for one sandbox while that exists, over pauses. After a restart of the server it has the
 *   same number where that is free, and another one otherwise: `exposed_urls` says which.
 * - Ports follow the rows: each waits until its sandbox is gone for callers or archived, by whatever way.
 * - What opens the path opens the port, by the same function (`sandboxTarget`). Cookies open nothing and are
 *   not forwarded: browsers send them to every port of a host.
 * - Requests name a loopback name, the host of the public address or one of `SLIPWAY_ALLOWED_HOSTS`, also
 *   with a key: other names lead here by DNS rebinding.
 * - Pages of a sandbox have an opaque origin here, as below the relay.
 * - Without TLS a port is no substitute for an address with TLS; among several servers on one database there
 *   is one public address, and a port would be that of one of them. Both keep the path (`portHost`).
 *
 * If you change this: a port that outlives its sandbox leads to the next program that has its number, and a
 * client would send it the key.
 *
 * Decision page: docs/decisions/0050-sandbox-ports.md
 */

import { type AppOptions, createApp, type Listening, listen } from '@slipway/http'
import { ownMember, parseJson, withoutMember } from '@slipway/shared/json'
import { errorText } from '@slipway/shared/text'
import { isLoopback } from '@slipway/shared/url'
import type { DocumentStore } from '@slipway/storage'
import { type Expose, isDirect } from './exposed-urls.ts'
import { type SandboxProxyDeps, sandboxPortRoute } from './sandbox-proxy.ts'

const documentName = 'sandbox-ports'

type AuditEntry = Parameters<NonNullable<AppOptions['audit']>>[0]

interface EndingSandboxes {
  /** Resolves when a sandbox never runs again: removed or archived. */
  untilEnded(id: string, signal: AbortSignal): Promise<void>
}

export interface SandboxPortsOptions {
  /** Where this server listens. */
  readonly host: string
  readonly expose: Expose
  /** Read when a port is asked for. */
  readonly publicUrl: () => string
  /** Other servers may use the database. */
  readonly isShared: boolean
  readonly proxy: SandboxProxyDeps & { readonly sandboxes: EndingSandboxes }
  readonly documents: DocumentStore
  /** `identify` says that callers need keys, without which nothing listens for other machines. */
  readonly app: AppOptions & Required<Pick<AppOptions, 'allowedHosts' | 'identify'>>
}

/** The open ports of sandboxes, by id. */
export class SandboxPorts implements AsyncDisposable {
  readonly #options: SandboxPortsOptions
  readonly #listeners = new Map<string, Promise<Listening>>()
  readonly #closing = new AbortController()

  constructor(options: SandboxPortsOptions) {
    this.#options = options
  }

  /** Opens the ports that sandboxes had when the server stopped. */
  async restore(): Promise<void> {
    const ids = Object.keys(await this.#readNumbers())
    await Promise.all(ids.map((id) => this.open(id)))
  }

  /**
   * The address of a sandbox, `http://127.0.0.1:4711`. Undefined where ports are not for callers, when the
   * sandbox is gone, and when no port can be opened.
   */
  async open(id: string): Promise<string | undefined> {
    const host = this.#host()
    if (host === undefined || this.#closing.signal.aborted) return undefined
    const [row] = await this.#options.proxy.sandboxes.find([id])
    if (row === undefined || row.wanted === 'archived') {
      await this.#store(id, undefined)
      return undefined
    }
    const opening = this.#listeners.get(id) ?? this.#listen(id, host)
    this.#listeners.set(id, opening)
    const listening = await opening.catch((error: unknown) => {
      if (this.#listeners.get(id) === opening) this.#listeners.delete(id)
      this.#options.app.log('warn', 'a sandbox has no port', { sandbox: id, error: errorText(error) })
      return undefined
    })
    return listening && `http://${localName(host)}:${listening.port}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    const open = [...this.#listeners.values()]
    await Promise.all(open.map((opening) => opening.then((one) => one.close()).catch(() => {})))
  }

  #host(): string | undefined {
    const { expose, publicUrl, isShared, host } = this.#options
    return isShared ? undefined : portHost(host, { expose, publicUrl: publicUrl() })
  }

  async #listen(id: string, host: string): Promise<Listening> {
    const previous = ownMember(await this.#readNumbers(), id) ?? 0
    const bind = (port: number) => listen(this.#app(id, host), { host, port })
    const listening = previous === 0 ? await bind(0) : await bind(previous).catch(() => bind(0))
    if (listening.port !== previous) await this.#store(id, listening.port)
    // Rejects when the server stops.
    void this.#closeWithSandbox(id, listening).catch(() => {})
    return listening
  }

  async #closeWithSandbox(id: string, listening: Listening): Promise<void> {
    await this.#options.proxy.sandboxes.untilEnded(id, this.#closing.signal)
    this.#listeners.delete(id)
    await listening.close()
    await this.#store(id, undefined)
  }

  #app(id: string, host: string) {
    const { app, publicUrl, proxy } = this.#options
    const { hostname: publicHost } = new URL(publicUrl())
    return createApp(
      {},
      {},
      {
        ...app,
        audit: (entry) => this.#audit({ ...entry, sandbox: id }),
        // Never empty, so that programs with a key are held to these names too.
        allowedHosts: [...app.allowedHosts, host, publicHost.replace(/^\[(.*)\]$/, '$1')],
        isForeignHost: () => true,
        proxyRoutes: [sandboxPortRoute(proxy, id)],
      },
    )
  }

  /** The address of a request does not name the sandbox. */
  #audit(entry: AuditEntry): void {
    const { audit, log } = this.#options.app
    if (audit === undefined) log('info', 'audit', { ...entry })
    else audit(entry)
  }

  async #readNumbers(): Promise<Record<string, number>> {
    return decodeNumbers(await this.#options.documents.get('', documentName))
  }

  /** A number that is not stored costs its reuse after a restart, no more. */
  async #store(id: string, port: number | undefined): Promise<void> {
    const edit = (old: Buffer | undefined) => {
      const others = withoutMember(decodeNumbers(old), id)
      const numbers = port === undefined ? others : { ...others, [id]: port }
      return Object.keys(numbers).length === 0 ? undefined : Buffer.from(JSON.stringify(numbers))
    }
    await this.#options.documents.update('', documentName, edit).catch((error: unknown) => {
      this.#options.app.log('warn', 'the port of a sandbox is not stored', {
        sandbox: id,
        error: errorText(error),
      })
    })
  }
}

/**
 * Where ports listen; undefined: callers use the path. With `auto` only where the server itself listens on
 * loopback: elsewhere, as in a container, they may not be published.
 */
export function portHost(
  host: string,
  exposed: { readonly expose: Expose; readonly publicUrl: string },
): string | undefined {
  if (!isDirect(exposed) || new URL(exposed.publicUrl).protocol !== 'http:') return undefined
  if (exposed.expose === 'auto' && !isLoopback(host)) return undefined
  // Not the name: another user of this machine may have the port at the other address of it.
  return host === 'localhost' ? '127.0.0.1' : host
}

/** How this machine reaches a port that listens there. */
function localName(host: string): string {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return name.includes(':') ? `[${name}]` : name
}

function decodeNumbers(document: Buffer | undefined): Record<string, number> {
  return Object(document && parseJson(document.toString()))
}
