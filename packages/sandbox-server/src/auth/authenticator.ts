import { hash, timingSafeEqual } from 'node:crypto'
import { type AuditCaller, isConsoleKey } from '@slipway/http'
import { type Instant, Problem, type Route, type Scope } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import {
  type AllowedBy,
  type ApiKeyRow,
  currentAuditTrail,
  type SandboxRow,
  type UserRows,
} from '@slipway/storage/control-plane'

/** Who makes a request. It sees and changes only rows of this owner. */
export interface Caller {
  readonly owner: string | null
  /** The organisation that the request works in. */
  readonly org: string | undefined
  readonly scopes: readonly Scope[]
  /** Null for a key of the configuration. */
  readonly keyId: string | null
  /** Null: the key never expires. */
  readonly expiresAt: Instant | null
  /** The only organisation in which the key works. */
  readonly boundOrg: string | null
  readonly isAdmin: boolean
}

type Header = (name: string) => string | undefined

/** The user of configured keys, created with the store. */
export const defaultUserId = 'admin'
/** `used_at` of a key moves at most this often. */
const touchIntervalMicros = 60_000_000

/** Besides `Authorization`, the first that is there counts. Sandboxes see none but their own session key. */
export const keyHeaders = ['x-session-api-key', 'x-access-token', 'x-service-api-key'] as const

const allScopes: readonly Scope[] = ['read', 'write', 'admin', 'operate']

/** SHA-256 of a key in hex, as stored. */
export function hashKey(key: string): string {
  return hash('sha256', key)
}

export interface SandboxKeys {
  findByKey(key: string): Promise<SandboxRow | undefined>
}

interface AuthenticatorDeps {
  readonly users: UserRows
  readonly sandboxes: SandboxKeys
  /** Keys of the configuration: they belong to the first user and have all scopes. */
  readonly keys: readonly Secret[]
  readonly now: () => Instant
}

/**
 * Headers in the order of the wire (4.1). No cookies: a browser sends them from pages of agents too. A page
 * of the console has a proof besides, and `http` makes both a header.
 */
export class Authenticator {
  readonly #deps: AuthenticatorDeps
  readonly #configured: readonly Buffer[]

  constructor(deps: AuthenticatorDeps) {
    this.#deps = deps
    this.#configured = deps.keys.map((key) => Buffer.from(hashKey(key.reveal())))
  }

  /** The calling user or sandbox. A Problem `unauthorized` or `forbidden` when the route is not allowed. */
  async authenticate(route: Route, header: Header): Promise<Caller | { readonly sandbox: SandboxRow }> {
    const { access, method } = route
    if (access === 'sandbox') {
      const sandbox = await this.#authenticateSandbox(header)
      noteOnTrail({ sandbox }, { role: 'sandbox', scope: null, org_id: sandbox.org })
      return { sandbox }
    }
    const caller = await this.authenticateCaller(header)
    const role = caller.isAdmin ? 'administrator' : 'user'
    if (access === 'operate') {
      const scope = (['write', 'operate'] as const).find((one) => caller.scopes.includes(one))
      if (scope === undefined)
        throw new Problem('forbidden', 'This key may not do that: it needs the scope write, or operate.')
      noteOnTrail(caller, { role, scope, org_id: caller.boundOrg })
      return caller
    }
    const ofUser: Scope = method === 'GET' ? 'read' : 'write'
    const isOfUser = access === 'user' || (access === 'organization' && !isServerAdmin(caller))
    const needed: Scope = isOfUser ? ofUser : 'admin'
    if (!caller.scopes.includes(needed) || (needed === 'admin' && !caller.isAdmin)) {
      throw new Problem('forbidden', `This key may not do that: it needs the scope ${needed}.`)
    }
    if (access === 'server' && caller.boundOrg !== null)
      throw new Problem('forbidden', 'A key of an organisation may not do that')
    noteOnTrail(caller, { role, scope: needed, org_id: caller.boundOrg })
    return caller
  }

  /** The caller whose key is in the headers, whatever the route. */
  async authenticateCaller(header: Header): Promise<Caller> {
    const { users, now } = this.#deps
    const key = extractKey(header)
    if (key === undefined) throw unauthorizedProblem()
    const digest = hashKey(key)
    const isConfigured = this.#configured.reduce(
      (found, known) => timingSafeEqual(known, Buffer.from(digest)) || found,
      false,
    )
    const row = isConfigured ? undefined : await users.findKeyByHash(digest)
    if (!isConfigured && (row === undefined || !isKeyValid(row, now()))) throw unauthorizedProblem()
    const user = await users.getUser(row?.user ?? defaultUserId)
    if (user === undefined) throw unauthorizedProblem()
    const boundOrg = row?.org ?? null
    const org = await this.#resolveOrg(user.id, boundOrg, user.org, header('x-org-id'))
    if (row !== undefined && now() - (row.used_at ?? 0) > touchIntervalMicros)
      await users.markKeyUsed(row.id, now())
    const scopes = row === undefined ? allScopes : allScopes.filter((scope) => row.scopes.includes(scope))
    // What a console session makes belongs to the key that it was made with, and outlives the session.
    const { id: keyId = null, expires_at: expiresAt = null } =
      (row !== undefined && isConsoleKey(key) ? await this.#findCreator(row) : row) ?? {}
    const caller = { owner: user.id, org, scopes, keyId, expiresAt, boundOrg, isAdmin: user.is_admin }
    // Before its rights are checked: a refusal names it too.
    noteOnTrail(caller)
    return caller
  }

  async #findCreator({ user, created_by }: ApiKeyRow): Promise<ApiKeyRow | undefined> {
    return (await this.#deps.users.listKeys(user)).find(({ id }) => id === created_by)
  }

  /**
   * Wire 4.4: the key's organisation, then the header's, then the user's. A user of no organisation has a
   * personal one, whose id is that of the user; naming it changes nothing.
   */
  async #resolveOrg(
    user: string,
    boundOrg: string | null,
    defaultOrg: string | null,
    requested: string | undefined,
  ): Promise<string | undefined> {
    if (requested === undefined || requested === '') return boundOrg ?? defaultOrg ?? undefined
    const orgs = await this.#deps.users.listOrgsOfUser(user)
    if (requested === user && boundOrg === null && orgs.length === 0) return defaultOrg ?? undefined
    const id = requested.toLowerCase()
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) {
      throw new Problem('bad_request', 'X-Org-Id is not the id of an organisation')
    }
    const isMember = orgs.some((org) => org.id === id)
    if (!isMember || (boundOrg !== null && boundOrg !== id)) {
      throw new Problem('forbidden', 'This key does not work in that organisation')
    }
    return id
  }

  async #authenticateSandbox(header: Header): Promise<SandboxRow> {
    const key = header('x-session-api-key')
    const row = key === undefined ? undefined : await this.#deps.sandboxes.findByKey(key)
    if (row === undefined) throw unauthorizedProblem()
    return row
  }
}

/** Whether a caller has the rights of an administrator of the server in this request. */
export function isServerAdmin({ isAdmin, scopes }: Pick<Caller, 'isAdmin' | 'scopes'>): boolean {
  return isAdmin && scopes.includes('admin')
}

/** The caller of a request to a route of users. */
export function getCaller({ caller }: { readonly caller: unknown }): Caller {
  if (typeof caller === 'object' && caller !== null && 'owner' in caller) return caller as Caller
  throw new Error('this route has no caller')
}

/** Session keys are for callers that may write: with one, a caller runs commands in the sandbox. */
export function hideSessionKey<T extends { readonly session_api_key: string | null }>(
  { scopes }: Caller,
  info: T,
): T {
  return scopes.includes('write') ? info : { ...info, session_api_key: null }
}

/** The sandbox of a request to a route of sandboxes. */
export function getCallingSandbox({ caller }: { readonly caller: unknown }): SandboxRow {
  if (typeof caller === 'object' && caller !== null && 'sandbox' in caller)
    return caller.sandbox as SandboxRow
  throw new Error('this route has no sandbox')
}

function noteOnTrail(caller: Caller | { readonly sandbox: SandboxRow }, allowedBy?: AllowedBy): void {
  const trail = currentAuditTrail()
  if (trail === undefined) return
  const { caller: name = null, via = null, org = null } = auditCaller(caller)
  trail.setCaller({ caller: name, via, org })
  if (allowedBy !== undefined) trail.allowedBy = allowedBy
}

export function auditCaller(caller: unknown): AuditCaller {
  if (typeof caller !== 'object' || caller === null) return {}
  if ('sandbox' in caller) return { caller: `sandbox:${(caller.sandbox as SandboxRow).id}` }
  const { owner, org, keyId } = caller as Caller
  return { caller: owner === null ? undefined : `user:${owner}`, org, via: keyId ?? undefined }
}

/** The key with which a request is made. */
export function extractKey(header: Header): string | undefined {
  const bearer = /^Bearer +(\S+)$/i.exec(header('authorization') ?? '')?.[1]
  const keys = [bearer, ...keyHeaders.map(header)]
  return keys.find((key) => key !== undefined && key !== '')
}

function isKeyValid(key: ApiKeyRow, now: Instant): boolean {
  return (key.not_before ?? now) <= now && now < (key.expires_at ?? Number.POSITIVE_INFINITY)
}

function unauthorizedProblem(): Problem {
  return new Problem(
    'unauthorized',
    'An API key is required: send it as Authorization: Bearer, or X-Session-API-Key',
  )
}
