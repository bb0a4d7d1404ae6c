import { type ConsoleSession, consoleProofHeader, type consoleRoutes, Problem } from '@slipway/protocol'
import type { Handlers, Request } from '../core/handler.ts'
import { consoleCookieName, createConsoleCredential, isConsoleKey } from './console-credential.ts'
import type { ConsoleTokens } from './console-tokens.ts'

const sessionSeconds = 86_400

/** What a key, or the key of a session, may do. */
export type ConsoleUser = Pick<ConsoleSession, 'user_id' | 'user_name' | 'org_id' | 'scopes' | 'is_admin'> & {
  readonly expiresAtMs: number | null
}

/** The keys and sessions of a server. */
export interface ConsoleAccounts {
  /** False where calls need no key. */
  readonly isKeyRequired: boolean
  /** Undefined for an invalid key. */
  findUser(key: string): Promise<ConsoleUser | undefined>
  /**
   * Makes another key valid, with the rights of the first, until it is removed or the first is not valid any
   * more.
   */
  addSession(key: string, sessionKey: string, expiresAtMs: number): Promise<void>
  /** False when there is no such session. */
  removeSession(sessionKey: string): Promise<boolean>
}

interface ConsoleOptions {
  readonly server: ConsoleSession['server']
  readonly version: string
  readonly accounts: ConsoleAccounts
  readonly tokens: ConsoleTokens
  /** The address at which a proxy shows the server to browsers; undefined without one. */
  readonly publicUrl?: () => string | undefined
}

type GetHeader = Request<never>['header']

/** Signing in and out, of both servers. */
export function consoleHandlers(options: ConsoleOptions) {
  const { accounts, tokens, publicUrl = () => undefined } = options
  return {
    async getConsoleSession({ header }) {
      const key = header('x-session-api-key')
      return {
        json: describeSession(options, key === undefined ? undefined : await accounts.findUser(key)),
        headers: noStore,
      }
    },
    async startConsoleSession({ body, header, peer, peerAddress }) {
      const sender = `${peer()} ${peerAddress()}`
      assertOwnPage(header)
      const isKey = body.token === undefined
      // A token cannot be guessed: wrong ones, and wrong keys, do not keep a link from working.
      if (isKey) tokens.assertMayTry(sender)
      const offered = body.token === undefined ? body.key : tokens.find(body.token)
      const user = offered === undefined ? undefined : await accounts.findUser(offered)
      // A session makes no other on its own, or it would never end; its tokens do, for another browser.
      const isSessionKey = isKey && isConsoleKey(offered ?? '')
      if (offered === undefined || user === undefined || isSessionKey) {
        if (isKey) tokens.countFailure(sender)
        throw new Problem('unauthorized', isKey ? 'Wrong key' : usedLink)
      }
      if (body.token !== undefined) {
        if (!body.replace) await assertSameUser(accounts, user, header)
        // Used by another request meanwhile.
        if (tokens.take(body.token) === undefined) throw new Problem('unauthorized', usedLink)
      }
      const { cookieName, cookie, proof, key } = createConsoleCredential()
      const expiresAtMs = Math.min(
        Date.now() + sessionSeconds * 1000,
        user.expiresAtMs ?? Number.POSITIVE_INFINITY,
      )
      await accounts.addSession(offered, key, expiresAtMs)
      const seconds = Math.max(0, Math.floor((expiresAtMs - Date.now()) / 1000))
      return {
        json: { ...describeSession(options, { ...user, expiresAtMs }), proof },
        headers: {
          ...noStore,
          'set-cookie': cookieHeader(publicUrl(), header, { name: cookieName, value: cookie, seconds }),
        },
      }
    },
    async endConsoleSession({ header }) {
      const key = header('x-session-api-key')
      const proof = header(consoleProofHeader) ?? ''
      if (key === undefined || !isConsoleKey(key) || !(await accounts.removeSession(key)))
        throw new Problem('unauthorized', 'No session: send its cookie and X-Console-Proof')
      const name = consoleCookieName(proof)
      const removal =
        name === undefined
          ? {}
          : { 'set-cookie': cookieHeader(publicUrl(), header, { name, value: '', seconds: 0 }) }
      return { json: { success: true }, headers: { ...noStore, ...removal } }
    },
    async createConsoleToken({ header }) {
      const key = header('x-session-api-key') ?? /^Bearer +(\S+) *$/i.exec(header('authorization') ?? '')?.[1]
      if (key === undefined || (await accounts.findUser(key)) === undefined)
        throw new Problem('conflict', 'This server is open without a key: its address is enough')
      const { token, expiresAtMs } = tokens.create(key)
      const expires_at = new Date(expiresAtMs).toISOString()
      return { status: 201, json: { token, expires_at }, headers: noStore }
    },
  } satisfies Handlers<typeof consoleRoutes>
}

function describeSession(
  { server, version, accounts }: ConsoleOptions,
  user: ConsoleUser | undefined,
): ConsoleSession {
  return {
    server,
    version,
    auth_required: accounts.isKeyRequired,
    signed_in: user !== undefined,
    expires_at: user?.expiresAtMs == null ? null : new Date(user.expiresAtMs).toISOString(),
    user_id: user?.user_id ?? null,
    user_name: user?.user_name ?? null,
    org_id: user?.org_id ?? null,
    scopes: user?.scopes ?? [],
    is_admin: user?.is_admin ?? false,
  }
}

function cookieHeader(
  publicUrl: string | undefined,
  header: GetHeader,
  { name, value, seconds }: { readonly name: string; readonly value: string; readonly seconds: number },
): string {
  const origin = header('origin') ?? ''
  const secure = /^https:/i.test(origin) ? '; Secure' : ''
  return `${name}=${value}; Path=${cookiePath(publicUrl, origin)}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`
}

/** A link of somebody else would show what is done from now on to them. */
async function assertSameUser(accounts: ConsoleAccounts, user: ConsoleUser, header: GetHeader) {
  const key = header('x-session-api-key')
  const current = key !== undefined && isConsoleKey(key) ? await accounts.findUser(key) : undefined
  if (current === undefined || current.user_id === user.user_id) return
  throw new Problem(
    'conflict',
    `You are signed in as ${nameOf(current)}, and this link signs in as ${nameOf(user)}.`,
  )
}

const usedLink = 'The link is used or too old'

function nameOf({ user_id, user_name }: ConsoleUser): string {
  const id = user_id ?? 'another user'
  return user_name === null ? id : `${user_name} (${id})`
}

const noStore = { 'cache-control': 'no-store' }

/** Below the path of the public address for its pages; everywhere for pages of the server's own address. */
function cookiePath(publicUrl: string | undefined, origin: string): string {
  const url = publicUrl === undefined ? null : URL.parse(publicUrl)
  return url === null || url.origin !== origin ? '/' : `${url.pathname.replace(/\/+$/, '')}/`
}

/** Signing another page's user in as oneself would show that user's input to others. */
function assertOwnPage(header: (name: string) => string | undefined): void {
  if (/^(cross|same)-site$/.test(header('sec-fetch-site') ?? ''))
    throw new Problem('forbidden', 'Pages of other origins may not sign in')
}
