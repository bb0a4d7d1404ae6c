import { randomBytes } from 'node:crypto'
import type { OpenModel } from '@slipway/agent'
import { Problem } from '@slipway/protocol'
import { Mutex, readText } from '@slipway/shared/async'
import { isRecord, parseJson } from '@slipway/shared/json'
import { redactedText } from '@slipway/shared/redaction'
import { type Cipher, type DocumentStore, JsonDocument, unreadableReasons } from '@slipway/storage'

const documentName = 'subscription.sealed'
/** Tokens that expire sooner are renewed. */
const marginMs = 60_000
const codeLifetimeMs = 15 * 60_000
const requestMs = 20_000
const maxBytes = 1024 * 1024
const maxPending = 100
const loginRequired = 'OpenAI subscription login is required'

interface SubscriptionOptions {
  readonly documents: DocumentStore
  readonly cipher: Cipher
  /** Without a client id no one can sign in. */
  readonly clientId: string | undefined
  /** Where users sign in, without a slash at the end. */
  readonly issuer: string
  /** The base URL of the models. */
  readonly modelsUrl: string
  /** Milliseconds. */
  readonly now?: () => number
}

/** `expires_at` is in milliseconds. */
interface Tokens {
  readonly access_token: string
  readonly refresh_token: string
  readonly expires_at: number
}

/** A sign-in that waits for the user's consent. */
interface PendingLogin {
  readonly deviceId: string
  readonly userCode: string
  readonly expiresAt: number
  isPolling: boolean
}

/**
 * The sign-in to a subscription by a code that the user enters at the provider. Tokens are in a sealed
 * document and leave it for the provider alone; one that cannot be read is a Problem `conflict` until a
 * sign-out removes it. Waiting codes are in memory.
 */
export class SubscriptionLogin {
  readonly #options: SubscriptionOptions
  readonly #document: JsonDocument<Tokens | undefined>
  readonly #mutex = new Mutex()
  readonly #pending = new Map<string, PendingLogin>()

  constructor(options: SubscriptionOptions) {
    this.#options = options
    const { documents, cipher } = options
    this.#document = new JsonDocument({
      store: documents,
      name: documentName,
      cipher,
      empty: undefined,
      parse: parseStoredTokens,
      unreadable: (reason) =>
        new Problem(
          'conflict',
          `The stored document ${documentName} cannot be read: ${unreadableReasons[reason]}. Restore it from a backup, or sign out to remove it.`,
        ),
    })
  }

  get isConfigured(): boolean {
    return this.#options.clientId !== undefined
  }

  /** Renews tokens that expire; when the provider refuses or is away, nothing is connected. */
  async status() {
    return toStatus(await this.#currentTokens())
  }

  /** Problems: `bad_request` without a client id, `bad_gateway` without a code, `conflict` as `status`. */
  async start() {
    const { clientId, issuer } = this.#options
    if (clientId === undefined)
      throw new Problem('bad_request', 'Sign-in with a subscription needs SLIPWAY_SUBSCRIPTION_CLIENT_ID')
    // Before the user signs in for a document that is not overwritten.
    await this.#read()
    const answer = await this.#post('/api/accounts/deviceauth/usercode', { client_id: clientId })
    const { device_auth_id, user_code, usercode = user_code, interval } = answer.json
    if (typeof device_auth_id !== 'string' || typeof usercode !== 'string') throw badGateway(answer.status)
    this.#dropExpired()
    if (this.#pending.size >= maxPending) throw new Problem('conflict', 'Too many sign-ins are under way')
    const device_code = randomBytes(32).toString('base64url')
    const expires_at = this.#now() + codeLifetimeMs
    this.#pending.set(device_code, {
      ...{ deviceId: device_auth_id, userCode: usercode, expiresAt: expires_at },
      isPolling: false,
    })
    return {
      device_code,
      user_code: usercode,
      verification_uri: `${issuer}/codex/device`,
      verification_uri_complete: null,
      expires_at,
      interval_seconds: Math.max(1, Math.ceil(Number(interval) || 5)),
    }
  }

  /**
   * Whether the user has consented; then the code is used up. Problems: `not_found` for an unknown code,
   * `bad_gateway` when the provider is away, after which the code still waits.
   */
  async poll(code: string) {
    this.#dropExpired()
    const login = this.#pending.get(code)
    if (login === undefined) throw new Problem('not_found', 'Subscription device login not found or expired')
    if (login.isPolling) return toStatus(undefined)
    login.isPolling = true
    try {
      const { deviceId, userCode } = login
      const body = { device_auth_id: deviceId, user_code: userCode }
      const answer = await this.#post('/api/accounts/deviceauth/token', body)
      if ([403, 404].includes(answer.status)) return toStatus(undefined)
      const { authorization_code: grant, code_verifier: verifier } = answer.json
      if (typeof grant !== 'string' || typeof verifier !== 'string') throw badGateway(answer.status)
      const redirect_uri = `${this.#options.issuer}/deviceauth/callback`
      const form = { grant_type: 'authorization_code', code: grant, code_verifier: verifier, redirect_uri }
      const tokens = await this.#requestTokens(form)
      if (tokens === undefined) throw badGateway()
      return await this.#mutex.runExclusive(async () => {
        // A sign-out has ended it meanwhile.
        if (!this.#pending.delete(code)) return toStatus(undefined)
        await this.#write(tokens)
        return toStatus(tokens)
      })
    } finally {
      login.isPolling = false
    }
  }

  /** Ends waiting sign-ins too. */
  async logout() {
    this.#pending.clear()
    await this.#mutex.runExclusive(() => this.#write(undefined))
    return toStatus(undefined)
  }

  /** Opens models whose `auth_type` is `subscription` with the tokens of the sign-in, and others as before. */
  wrap(open: OpenModel): OpenModel {
    return (llm, options) => {
      if (llm.auth_type !== 'subscription') return open(llm, options)
      const { modelsUrl } = this.#options
      const model = llm.model.includes('/') ? llm.model : `openai/${llm.model}`
      const members = { model, base_url: modelsUrl, api_mode: 'responses', api_key: undefined } as const
      return open({ ...llm, ...members }, { ...options, fetch: this.#fetch })
    }
  }

  /** Fallbacks of a model come here too: others than the provider get no token. */
  readonly #fetch: typeof fetch = async (input, init) => {
    const url = input instanceof Request ? input.url : String(input)
    if (!url.startsWith(`${this.#options.modelsUrl}/`)) return await fetch(input, init)
    const tokens = await this.#currentTokens()
    if (tokens === undefined) return Response.json({ error: { message: loginRequired } }, { status: 401 })
    const headers = new Headers(init?.headers)
    headers.set('authorization', `Bearer ${tokens.access_token}`)
    const account = accountId(tokens.access_token)
    if (account !== undefined) headers.set('chatgpt-account-id', account)
    const response = await fetch(input, { ...init, headers, redirect: 'error' })
    return response.ok ? response : await withoutToken(response, tokens.access_token)
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now()
  }

  #dropExpired(): void {
    for (const [code, { expiresAt }] of this.#pending)
      if (expiresAt <= this.#now()) this.#pending.delete(code)
  }

  /** One renewal at a time: a provider may accept a refresh token only once. */
  async #currentTokens(): Promise<Tokens | undefined> {
    return await this.#mutex.runExclusive(async () => {
      const tokens = await this.#read()
      if (tokens === undefined || tokens.expires_at - this.#now() > marginMs) return tokens
      const { refresh_token } = tokens
      const form = { grant_type: 'refresh_token', refresh_token }
      const renewed = await this.#requestTokens(form, refresh_token).catch(() => undefined)
      // Another server on the same database may have renewed them, or ended the sign-in.
      const current =
        renewed === undefined
          ? await this.#read()
          : await this.#document.update((stored) =>
              stored?.refresh_token === refresh_token ? renewed : stored,
            )
      return renewed === undefined && current?.refresh_token === refresh_token ? undefined : current
    })
  }

  /** Undefined when the provider refuses. */
  async #requestTokens(form: Record<string, string>, refreshToken?: string): Promise<Tokens | undefined> {
    const { clientId = '' } = this.#options
    const { json } = await this.#post('/oauth/token', new URLSearchParams({ ...form, client_id: clientId }))
    const { access_token, refresh_token = refreshToken, expires_in } = json
    const seconds = typeof expires_in === 'number' ? expires_in : 3600
    return parseTokens({ access_token, refresh_token, expires_at: this.#now() + seconds * 1000 })
  }

  /** A Problem `bad_gateway` without an answer or for a failure of the provider. */
  async #post(path: string, body: object | URLSearchParams) {
    const isForm = body instanceof URLSearchParams
    const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json'
    try {
      const response = await fetch(this.#options.issuer + path, {
        method: 'POST',
        headers: { 'content-type': type, accept: 'application/json' },
        body: isForm ? body.toString() : JSON.stringify(body),
        redirect: 'error',
        signal: AbortSignal.timeout(requestMs),
      })
      const value = parseJson(await readText(response, maxBytes))
      const { status } = response
      if (status >= 500) throw badGateway(status)
      return { status, json: response.ok && isRecord(value) ? value : {} }
    } catch (error) {
      throw error instanceof Problem ? error : badGateway()
    }
  }

  async #read(): Promise<Tokens | undefined> {
    return await this.#document.read()
  }

  /** A sign-out removes the document without reading it. */
  async #write(tokens: Tokens | undefined): Promise<void> {
    if (tokens !== undefined) await this.#document.update(() => tokens)
    else await this.#options.documents.update('', documentName, () => undefined)
  }
}

/** Without tokens. */
function toStatus(tokens: Tokens | undefined) {
  const common = { vendor: 'openai' as const, connected: tokens !== undefined, account_email: null }
  return { ...common, expires_at: tokens?.expires_at ?? null }
}

function parseStoredTokens(value: unknown): Tokens {
  const tokens = parseTokens(value)
  if (tokens === undefined) throw new Error('not the tokens of a sign-in')
  return tokens
}

function parseTokens(value: unknown): Tokens | undefined {
  if (!isRecord(value)) return undefined
  const { access_token, refresh_token, expires_at } = value
  const isComplete = typeof access_token === 'string' && typeof refresh_token === 'string'
  return isComplete && Number.isSafeInteger(expires_at)
    ? { access_token, refresh_token, expires_at: Number(expires_at) }
    : undefined
}

/** The account that a token names; the provider checks the token itself. */
function accountId(token: string): string | undefined {
  const claims = parseJson(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
  const auth = isRecord(claims) ? claims['https://api.openai.com/auth'] : undefined
  const id = isRecord(auth) ? auth.chatgpt_account_id : undefined
  return typeof id === 'string' && /^[\w-]{1,100}$/.test(id) ? id : undefined
}

/** An error that repeats the token could reach a log. */
async function withoutToken(response: Response, token: string): Promise<Response> {
  const { status } = response
  const headers = new Headers(response.headers)
  for (const name of ['content-encoding', 'content-length']) headers.delete(name)
  return new Response((await readText(response, maxBytes)).replaceAll(token, redactedText), {
    status,
    headers,
  })
}

/** Without bodies, which could have secrets. */
function badGateway(status?: number): Problem {
  const reason = status === undefined ? 'gave no answer' : `answered ${status}`
  return new Problem('bad_gateway', `The provider of the subscription ${reason}`)
}
