import type { ProxyRequest, ProxyRoute } from '@slipway/http'
import { type Scope as KeyScope, Problem } from '@slipway/protocol'
import { ownedBy, type SandboxRow, type Scope } from '@slipway/storage/control-plane'
import { hashKey, keyHeaders } from '../auth/authenticator.ts'
import { proxyPathNames } from './exposed-urls.ts'

type Header = ProxyRequest['header']
type AuthenticateCaller = (header: Header) => Promise<Scope & { readonly scopes: readonly KeyScope[] }>

interface ProxiedSandboxes {
  find(ids: readonly string[]): Promise<(SandboxRow | undefined)[]>
  addresses(row: SandboxRow): Readonly<Record<string, string>>
  findByKey(key: string): Promise<SandboxRow | undefined>
  touch(id: string): void
}

/** Cookies with credentials of this server. */
const ownCookie = /^(api_key|keycloak_auth\w*)=/

/**
 * Sandboxes below this server. An agent server checks its key, and has routes without one; a worker checks
 * nothing, so
 * the session key or a key of the owner is required here. With a key of somebody else a sandbox is as
 * unknown as one that does not exist; an invalid key is none. Never resumes a sandbox, and forwards no
 * credentials of this server.
 */
export function sandboxProxyRoute(deps: SandboxProxyDeps): ProxyRoute {
  return { prefix: '/sandboxes/{sandbox_id}/{name}', isUntrusted: true, target: sandboxTarget(deps) }
}

/**
 * The agent server of one sandbox at a separate address. Cookies do not pass: browsers send those of this
 * server to every port of its host.
 */
export function sandboxPortRoute(deps: SandboxProxyDeps, sandbox_id: string): ProxyRoute {
  const target = sandboxTarget(deps)
  return {
    prefix: '',
    isUntrusted: true,
    async target(request) {
      const found = await target({ ...request, params: { sandbox_id, name: 'agent' } })
      return { ...found, headers: { ...found.headers, cookie: undefined } }
    },
  }
}

export interface SandboxProxyDeps {
  readonly sandboxes: ProxiedSandboxes
  /** The owner of the key in the headers, and its scopes; a Problem without a valid one. */
  readonly authenticateCaller: AuthenticateCaller
}

function sandboxTarget({ sandboxes, authenticateCaller }: SandboxProxyDeps): ProxyRoute['target'] {
  const isOfOtherSandbox = async (keys: readonly (string | undefined)[]) => {
    const found = keys.map((key) => (key === undefined ? undefined : sandboxes.findByKey(key)))
    return (await Promise.all(found)).some((row) => row !== undefined)
  }
  return async ({ params, header, method, isUpgrade }) => {
    const name = Object.keys(proxyPathNames).find((known) => proxyPathNames[known] === params.name)
    const [row] = await sandboxes.find([params.sandbox_id ?? ''])
    const isAgent = name === 'AGENT_SERVER'
    const scope = isAgent || (/^(?:GET|HEAD)$/.test(method) && !isUpgrade) ? 'read' : 'write'
    const isOpen = await requireAccess(row, header, {
      isAgent,
      scope,
      authenticateCaller,
      isOfOtherSandbox,
    })
      .then(() => false)
      .catch((error: unknown) => {
        if (isAgent && error instanceof Problem && error.code === 'unauthorized') return true
        throw error
      })
    if (row === undefined || name === undefined) throw notFoundProblem()
    const isRunning = row.status === 'RUNNING' && row.wanted === 'running'
    if (!isRunning) throw isOpen ? notFoundProblem() : notRunningProblem(row)
    const url = sandboxes.addresses(row)[name]
    if (url === undefined) throw new Problem('not_found', 'The sandbox has no such address')
    // Requests of strangers keep no sandbox from its pause.
    if (!isOpen) sandboxes.touch(row.id)
    return { url, headers: upstreamHeaders(header, name, row) }
  }
}

interface AccessRule {
  readonly isAgent: boolean
  readonly scope: KeyScope
  readonly authenticateCaller: AuthenticateCaller
  isOfOtherSandbox(keys: readonly (string | undefined)[]): Promise<boolean>
}

/**
 * Problems: `not_found` for keys of others, `unauthorized` without a valid one, `forbidden` without the
 * scope.
 */
async function requireAccess(row: SandboxRow | undefined, header: Header, rule: AccessRule): Promise<void> {
  const { isAgent, scope, authenticateCaller, isOfOtherSandbox } = rule
  const keys = isAgent ? [header('x-session-api-key'), bearerOf(header)] : [header('x-session-api-key')]
  if (row !== undefined && keys.some((key) => key !== undefined && isSessionKey(row, key))) return
  if (await isOfOtherSandbox(keys)) throw notFoundProblem()
  const caller = await authenticateCaller(header)
  if (!ownedBy(caller).includes(row)) throw notFoundProblem()
  if (!caller.scopes.includes(scope))
    throw new Problem('forbidden', `This key may not do that: it needs the scope ${scope}.`)
}

function bearerOf(header: Header): string | undefined {
  return /^bearer +(\S+)$/i.exec(header('authorization') ?? '')?.[1]
}

function notFoundProblem(): Problem {
  return new Problem('not_found', 'Not Found')
}

/** A sandbox must not see the keys of its owner, nor its workers the session key. */
function upstreamHeaders(header: Header, name: string, row: SandboxRow): Record<string, string | undefined> {
  const session = header('x-session-api-key')
  const bearer = bearerOf(header)
  const cookies = (header('cookie') ?? '').split(/; */).filter((one) => one !== '' && !ownCookie.test(one))
  const isAgent = name === 'AGENT_SERVER'
  const isForwarded = (key: string | undefined) => isAgent && key !== undefined && isSessionKey(row, key)
  const hidden = keyHeaders.filter((header) => header !== 'x-session-api-key' || !isForwarded(session))
  return {
    ...Object.fromEntries(hidden.map((header) => [header, undefined])),
    'x-org-id': undefined,
    // A worker may have its own users and passwords; an agent server takes its key alone.
    ...(isForwarded(bearer) || (!isAgent && bearer === undefined) ? {} : { authorization: undefined }),
    cookie: cookies.length === 0 ? undefined : cookies.join('; '),
  }
}

/** Compares digests, whose timing reveals nothing about the key. */
function isSessionKey(row: SandboxRow, key: string): boolean {
  return row.key_hash !== null && row.key_hash === hashKey(key)
}

function notRunningProblem({ id, status, wanted }: SandboxRow): Problem {
  const advice =
    status === 'STARTING'
      ? 'it is on its way; try again in a moment'
      : status === 'MISSING'
        ? 'nothing is left of it; start another one'
        : `resume it with: slipway sandbox resume ${id}`
  const displayedStatus = status === 'RUNNING' && wanted === 'paused' ? 'PAUSED' : status
  return new Problem('conflict', `The sandbox does not run (${displayedStatus}): ${advice}`, undefined, {
    sandbox_status: displayedStatus,
  })
}
