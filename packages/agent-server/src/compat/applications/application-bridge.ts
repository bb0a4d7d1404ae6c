import {
  cookieValues,
  type Handlers,
  type ProxyRequest,
  type ProxyRoute,
  withoutCredentials,
} from '@slipway/http'
import {
  type applicationBridgeRoutes,
  extensionName,
  Problem,
  serverFailure,
  validationIssues,
} from '@slipway/protocol'
import { applicationPrefix, type Ingress } from '../../core/server/ingress.ts'
import { BridgeSessions, type Program } from './bridge-sessions.ts'

interface ApplicationBridgeOptions {
  readonly ingress: Ingress
  /** How long a session lasts. */
  readonly sessionMs: number
  /** The ready program of an application. */
  readonly findReady: (name: string) => Program | undefined
  /** Without keys every page of this machine could open sessions. */
  readonly hasKeys: () => boolean
}

const cookieName = 'oh_app_backend_session'
const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])
const iframeSandbox = 'allow-forms allow-modals allow-popups allow-same-origin allow-scripts'
/** Parameters of addresses that are keys of this server. */
const keyParameters = new Set(['session_api_key', 'x-session-api-key', 'authorization'])

/**
 * Pages of applications call their programs from their own origin. A page that has the session key gets
 * a cookie for one application; with this alone requests and WebSockets pass to its program.
 */
export class ApplicationBridge {
  readonly #options: ApplicationBridgeOptions
  readonly #sessions: BridgeSessions

  constructor(options: ApplicationBridgeOptions) {
    this.#options = options
    this.#sessions = new BridgeSessions(options.sessionMs)
  }

  /** The opening and the end of sessions; keys and origins have been checked. */
  get handlers(): Handlers<typeof applicationBridgeRoutes> {
    return {
      createApplicationSession: ({ params: { extension_name: name }, header }) => {
        this.#checkControlPage(header)
        const program = this.#findReady(name)
        this.#options.ingress.checkSecure()
        if (!this.#options.hasKeys())
          throw serverFailure('unavailable', '503: Canvas App sessions need a session key of the server')
        const { token, expiresMs } = this.#sessions.create(name, program)
        return {
          json: {
            ingress_url: `${this.#options.ingress.origin}/app-backends/${name}/`,
            expires_at: new Date(expiresMs).toISOString(),
            iframe_sandbox: iframeSandbox,
          },
          headers: { 'set-cookie': this.#cookie(name, token, this.#sessions.lifetimeMs / 1000) },
        }
      },
      revokeApplicationSession: ({ params: { extension_name: name }, header }) => {
        this.#checkControlPage(header)
        const token = findToken(header)
        if (token !== undefined) this.#sessions.revoke(token, name)
        return { status: 204, bytes: Buffer.alloc(0), headers: { 'set-cookie': this.#cookie(name, '""', 0) } }
      },
    }
  }

  /** Requests and WebSockets to programs. */
  get proxyRoute(): ProxyRoute {
    return {
      prefix: applicationPrefix,
      isBridge: true,
      target: async ({ params: { extension_name: name = '' }, header, isUpgrade, method, query }) => {
        const { ingress } = this.#options
        ingress.checkHost(header)
        const parsed = extensionName.safeParse(name)
        if (!parsed.success)
          throw new Problem(
            'invalid',
            'Invalid',
            validationIssues(parsed.error, ['path', 'extension_name'], name),
          )
        const isSafe = !isUpgrade && safeMethods.has(method)
        const isPreflight = method === 'OPTIONS' && header('access-control-request-method') !== undefined
        if ((!isSafe || isPreflight) && header('origin') !== ingress.origin)
          throw new Problem('forbidden', 'Origin is not allowed')
        const program = this.#findReady(name)
        if (isPreflight) throw new Problem('method_not_allowed', 'A preflight is answered by this server')
        const signal = this.#sessions.find(findToken(header) ?? '', name, program)
        if (signal === undefined) throw new Problem('unauthorized', 'Unauthorized')
        return {
          url: program.door.url,
          query: withoutKeys(query),
          signal,
          headers: {
            ...withoutCredentials,
            origin: isUpgrade ? undefined : header('origin'),
            ...program.door.headers,
          },
        }
      },
    }
  }

  #findReady(name: string): Program {
    const program = this.#options.findReady(name)
    if (program === undefined) throw serverFailure('unavailable', '503: Canvas App backend is not ready')
    return program
  }

  /** The page that opens sessions is not one of the applications. */
  #checkControlPage(header: ProxyRequest['header']): void {
    const { ingress } = this.#options
    ingress.checkHost(header)
    const origin = header('origin')
    if (origin === undefined) throw new Problem('forbidden', 'Origin is not allowed')
    if (origin.toLowerCase() === ingress.origin)
      throw new Problem('conflict', 'Canvas App ingress must use a separate browser origin')
  }

  #cookie(name: string, value: string, maxAge: number): string {
    const scope = `Max-Age=${Math.round(maxAge)}; Path=/app-backends/${name}; SameSite=none; Secure; Partitioned`
    return `${cookieName}=${value}; HttpOnly; ${scope}`
  }
}

function findToken(header: ProxyRequest['header']): string | undefined {
  return cookieValues(header('cookie'), cookieName)[0]
}

/** The raw parameters without those that are keys. */
function withoutKeys(query: string): string {
  const parameters = query
    .slice(1)
    .split('&')
    .filter((pair) => {
      const [name = ''] = new URLSearchParams(pair).keys()
      return pair !== '' && !keyParameters.has(name.toLowerCase())
    })
  return parameters.length === 0 ? '' : `?${parameters.join('&')}`
}
