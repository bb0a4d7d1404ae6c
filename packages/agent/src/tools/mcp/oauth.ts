import { randomBytes } from 'node:crypto'
import type {
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import { limitAnswer, readText } from '@slipway/shared/async'
import { isRecord, parseJsonObject } from '@slipway/shared/json'
import {
  checkedLookup,
  fetchWithLookup,
  isLocalHost,
  isPublicAddress,
  PrivateAddressError,
  publicFetch,
} from '@slipway/shared/network'
import { sameOriginFetch } from '@slipway/shared/url'
import type { McpOAuthState, McpOAuthStates } from '../core/mcp-oauth-states.ts'
import { McpConnectionError } from './connection-error.ts'

/** A token is renewed so long before its end. */
const marginSeconds = 30
const refreshMs = 20_000
const maxBytes = 1024 * 1024

/**
 * A valid access token of a server whose `auth` has the strategy `oauth2`. Rejects with McpConnectionError.
 */
export async function accessToken(
  url: string,
  auth: Readonly<Record<string, unknown>>,
  states: McpOAuthStates | undefined,
): Promise<string> {
  const given: McpOAuthState = isRecord(auth.state) ? auth.state : {}
  const renew = async (state: McpOAuthState) =>
    isExpired(state) && state.tokens?.refresh_token !== undefined
      ? await refresh(url, auth.authentication, state)
      : state
  const { tokens } = await (states === undefined ? renew(given) : states.update(url, given, renew))
  const token: unknown = tokens?.access_token
  if (typeof token === 'string' && token !== '') return token
  throw new McpConnectionError('it wants a sign-in of OAuth: sign in to it, or give it a token')
}

function isExpired({ token_expires_at: end }: McpOAuthState): boolean {
  return typeof end === 'number' && end < Date.now() / 1000 + marginSeconds
}

async function refresh(url: string, authentication: unknown, state: McpOAuthState): Promise<McpOAuthState> {
  const { auth } = await import('@modelcontextprotocol/client')
  const [registered] = 'redirect_uris' in Object(state.client_info) ? redirectUris(state) : []
  const provider = new SignIn(registered ?? 'http://localhost/callback', authentication, state)
  const requests = boundedFetch(url, AbortSignal.timeout(refreshMs))
  try {
    const result = await auth(provider, { serverUrl: url, fetchFn: requests.fetch })
    if (result === 'AUTHORIZED') return provider.signedIn
  } catch {
    // The reason may contain tokens.
  }
  const reason = requests.refusal() ?? 'sign in to it again'
  throw new McpConnectionError(`its sign-in has ended and could not be renewed: ${reason}`)
}

function redirectUris({ client_info }: McpOAuthState): string[] {
  const { redirect_uris }: { redirect_uris?: unknown } = Object(client_info)
  return Array.isArray(redirect_uris) ? redirect_uris.map(String) : []
}

/** Members of the address to which the user is sent after the consent. */
export interface McpConsent {
  readonly code: string
  /** Who has issued it, where the provider says so. */
  readonly iss?: string | undefined
}

export interface McpSignInOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /**
   * `auth.authentication`: `scopes`, `client_id` and `client_secret` of a client that is registered already.
   */
  readonly authentication: unknown
  readonly redirectUrl: string
  /** Shows the address where the user consents; resolves with what the answer has, or rejects. */
  readonly consent: (authorizationUrl: URL, state: string) => Promise<McpConsent>
  readonly signal: AbortSignal
}

/** Signs in to a server, with PKCE; undefined when it answers without. Rejects with the error. */
export async function signInToMcpServer(options: McpSignInOptions): Promise<McpOAuthState | undefined> {
  const requests = boundedFetch(options.url, options.signal)
  try {
    return await signIn(options, requests.fetch)
  } catch (error) {
    // The library hides some failures, and continues to another one.
    const refusal = requests.refusal()
    throw refusal === undefined ? error : new Error(refusal, { cause: error })
  }
}

async function signIn(
  options: McpSignInOptions,
  fetchFn: ReturnType<typeof boundedFetch>['fetch'],
): Promise<McpOAuthState | undefined> {
  const { url, headers, authentication, redirectUrl, consent } = options
  const { auth, extractWWWAuthenticateParams } = await import('@modelcontextprotocol/client')
  const answer = await fetchFn(url, {
    method: 'POST',
    headers: {
      ...headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  })
  await answer.body?.cancel()
  if (answer.status !== 401) return undefined
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(answer)
  const provider = new SignIn(redirectUrl, authentication, {})
  const request = {
    serverUrl: url,
    fetchFn,
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
    ...(scope === undefined ? {} : { scope }),
  }
  await auth(provider, request)
  if (provider.authorizationUrl === undefined) throw new Error('The server named no address for the consent')
  const { code: authorizationCode, iss } = await consent(provider.authorizationUrl, provider.state())
  await auth(provider, { ...request, authorizationCode, ...(iss === undefined ? {} : { iss }) })
  return provider.signedIn
}

/**
 * A server names where its users sign in. One on the internet must not name a place in this machine's
 * networks, whose answers the sign-in would show. A server is in these networks when its name says so, or
 * all addresses to which its connections went are.
 */
function boundedFetch(serverUrl: string, signal: AbortSignal) {
  const { host, hostname } = new URL(serverUrl)
  const addresses: string[] = []
  const lookupServer = checkedLookup((_, found) => void addresses.push(...found))
  const fetchAny = sameOriginFetch()
  const fetchPublic = sameOriginFetch(publicFetch as typeof fetch)
  const fetchServer = sameOriginFetch(((url, init = {}) =>
    fetchWithLookup(url as string, init, lookupServer)) as typeof fetch)
  const isLocal = () => isLocalHost(hostname) || (addresses.length > 0 && !addresses.some(isPublicAddress))
  let refused: string | undefined
  return {
    /** What to say when a request was refused. */
    refusal: () =>
      refused === undefined
        ? undefined
        : `the server names ${refused} for its sign-in, which is in a private network or on this machine`,
    fetch: async (url: string | URL, init?: RequestInit) => {
      const target = new URL(url)
      const fetchOther = isLocal() ? fetchAny : fetchPublic
      try {
        const answer = await (target.host === host ? fetchServer : fetchOther)(url, { ...init, signal })
        return await withoutErrorText(limitAnswer(answer, { maxBytes }))
      } catch (error) {
        if (error instanceof PrivateAddressError) refused = target.host
        throw error
      }
    },
  }
}

/**
 * The library prints what an error says, or its whole body, to the log of the server: it may repeat the
 * tokens that were sent, so only its code is passed on. An error may come with status 200.
 */
async function withoutErrorText(answer: Response): Promise<Response> {
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') === true
  if (answer.ok && isStream) return answer
  const { status, statusText } = answer
  const text = await readText(answer)
  const code = parseJsonObject(text)?.error
  const headers = new Headers(answer.headers)
  for (const name of ['content-length', 'content-encoding']) headers.delete(name)
  const error = typeof code === 'string' && /^\w{1,64}$/.test(code) ? code : 'server_error'
  const body =
    answer.ok && code === undefined ? text : JSON.stringify({ error, error_description: `HTTP ${status}` })
  // Some statuses allow no body.
  return new Response(body === '' ? null : body, { status, statusText, headers })
}

/** One sign-in, or the renewal of one, which never asks for a consent. */
class SignIn implements OAuthClientProvider {
  readonly redirectUrl: string
  readonly #authentication: Readonly<Record<string, unknown>>
  readonly #state = randomBytes(24).toString('base64url')
  #tokens: StoredOAuthTokens | undefined
  #client: StoredOAuthClientInformation | undefined
  #expiresAt: number | undefined
  #verifier = ''
  #discovery: OAuthDiscoveryState | undefined
  authorizationUrl: URL | undefined

  constructor(
    redirectUrl: string,
    authentication: unknown,
    { tokens, client_info, token_expires_at }: McpOAuthState,
  ) {
    this.redirectUrl = redirectUrl
    this.#authentication = isRecord(authentication) ? authentication : {}
    this.#tokens = tokens as StoredOAuthTokens | undefined // as saveTokens received them
    this.#client = client_info
    this.#expiresAt = token_expires_at
    const { client_id, client_secret } = this.#authentication
    if (typeof client_id === 'string' && client_id !== '')
      this.#client ??= { client_id, ...(typeof client_secret === 'string' ? { client_secret } : {}) }
  }

  get clientMetadata(): OAuthClientMetadata {
    const { scopes, client_auth_method: method, client_name: name } = this.#authentication
    return {
      redirect_uris: [this.redirectUrl],
      client_name: typeof name === 'string' ? name : 'Slipway',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: typeof method === 'string' ? method : 'none',
      ...(Array.isArray(scopes) && scopes.length > 0 ? { scope: scopes.join(' ') } : {}),
    }
  }

  get signedIn(): McpOAuthState {
    return { tokens: this.#tokens, client_info: this.#client, token_expires_at: this.#expiresAt }
  }

  state(): string {
    return this.#state
  }

  clientInformation() {
    return this.#client
  }

  saveClientInformation(client: StoredOAuthClientInformation): void {
    this.#client = client
  }

  tokens() {
    return this.#tokens
  }

  saveTokens(tokens: StoredOAuthTokens): void {
    this.#tokens = tokens
    this.#expiresAt =
      tokens.expires_in === undefined ? undefined : Math.floor(Date.now() / 1000) + tokens.expires_in
  }

  redirectToAuthorization(url: URL): void {
    this.authorizationUrl = url
  }

  /** Where the user has consented: the code goes nowhere else. */
  saveDiscoveryState(discovery: OAuthDiscoveryState): void {
    this.#discovery = discovery
  }

  discoveryState() {
    return this.#discovery
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier
  }

  codeVerifier(): string {
    return this.#verifier
  }
}
