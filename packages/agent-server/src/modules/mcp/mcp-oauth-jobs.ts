import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type McpConsent, type McpOAuthState, signInToMcpServer } from '@slipway/agent'
import { type McpTestRequest, type McpTestResponse, Problem } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import { isRecord } from '@slipway/shared/json'
import { errorTextWithCause, firstChars } from '@slipway/shared/text'
import { isLoopback } from '@slipway/shared/url'

/** A sign-in can be asked about for so long. */
const keepMs = 15 * 60_000
const maxJobs = 100

type RemoteServer = Extract<McpTestRequest['server'], { readonly url: string }>

/** How far a sign-in is. `oauth_state` has secrets. */
export interface McpOAuthStatus {
  readonly ok: boolean
  readonly status: 'pending' | 'authorizing' | 'succeeded' | 'failed'
  readonly job_id: string
  readonly callback_ready: boolean
  readonly authorization_url?: string
  readonly tools?: readonly string[]
  readonly tool_result?: { readonly is_error: boolean; readonly text: string } | undefined
  readonly oauth_state?: McpOAuthState
  readonly error?: string
  readonly error_kind?: 'timeout' | 'connection' | 'unknown'
}

interface Consent {
  readonly state: string
  readonly redirectUrl: URL
  readonly answer: PromiseWithResolvers<McpConsent>
}

interface Job {
  status: McpOAuthStatus
  consent?: Consent
}

/** Sign-ins to MCP servers that are under way, in memory. */
export class McpOAuthJobs implements AsyncDisposable {
  readonly #test: (request: McpTestRequest, signal: AbortSignal) => Promise<McpTestResponse>
  readonly #jobs = new Map<string, Job>()
  readonly #closing = new AbortController()
  readonly #running = new Set<Promise<void>>()

  constructor(test: (request: McpTestRequest, signal: AbortSignal) => Promise<McpTestResponse>) {
    this.#test = test
  }

  /**
   * Resolves when the user is to consent, or the sign-in has ended. A Problem `bad_request` without OAuth.
   */
  async start(request: McpTestRequest): Promise<McpOAuthStatus> {
    const { server } = request
    if (server.type === 'stdio' || !isRecord(server.auth) || server.auth.strategy !== 'oauth2')
      throw new Problem('bad_request', "MCP OAuth start requires auth.strategy='oauth2'")
    if (this.#running.size >= maxJobs) throw new Problem('conflict', 'Too many sign-ins are under way')
    for (const [old, { status }] of this.#jobs)
      if (this.#jobs.size >= maxJobs && /^(?:succeeded|failed)$/.test(status.status)) this.#jobs.delete(old)
    const id = randomUUID().replaceAll('-', '')
    const job: Job = { status: { ok: true, status: 'pending', job_id: id, callback_ready: false } }
    this.#jobs.set(id, job)
    setTimeout(() => this.#jobs.delete(id), keepMs).unref()
    const began = Promise.withResolvers<void>()
    const running = this.#run(job, request, server, began.resolve).finally(() => {
      began.resolve()
      this.#running.delete(running)
    })
    this.#running.add(running)
    await began.promise
    return job.status
  }

  /** A Problem `not_found` for an unknown sign-in. */
  get(id: string): McpOAuthStatus {
    return this.#find(id).status
  }

  /**
   * Continues a sign-in with the address to which the provider sent the user. Problems: `not_found`,
   * `conflict` before the consent is asked for, `bad_request` for another address, after which it waits on.
   */
  finish(id: string, callbackUrl: string): McpOAuthStatus {
    const job = this.#find(id)
    const { consent, status } = job
    if (consent === undefined) throw new Problem('conflict', 'OAuth callback is not ready')
    if (status.status !== 'authorizing') return status
    const url = URL.parse(callbackUrl)
    if (url?.protocol !== 'http:' || !isLoopback(url.hostname))
      throw new Problem('bad_request', 'Invalid OAuth callback URL')
    const { port, pathname } = consent.redirectUrl
    if (url.port !== port || url.pathname !== pathname)
      throw new Problem('bad_request', 'Unexpected OAuth callback URL')
    const isAccepted = acceptConsent(consent, url.searchParams)
    if (isAccepted) return job.status
    job.status = {
      ...{ ok: false, status: 'failed', job_id: id, callback_ready: true },
      ...{ error: 'OAuth callback returned HTTP 400', error_kind: 'connection' },
    }
    return job.status
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The server stops'))
    await Promise.all(this.#running)
  }

  #find(id: string): Job {
    const job = this.#jobs.get(id)
    if (job === undefined) throw new Problem('not_found', 'MCP OAuth job not found')
    return job
  }

  async #run(job: Job, request: McpTestRequest, server: RemoteServer, onReady: () => void): Promise<void> {
    const { job_id } = job.status
    const timeout = AbortSignal.timeout(request.timeout * 1000)
    const signal = AbortSignal.any([timeout, this.#closing.signal])
    const auth = isRecord(server.auth) ? server.auth : {}
    try {
      let state: McpOAuthState | undefined
      if (!isRecord(auth.state)) {
        await using listener = await CallbackListener.open()
        state = await signInToMcpServer({
          url: server.url,
          headers: server.headers,
          authentication: auth.authentication,
          redirectUrl: listener.redirectUrl.href,
          consent: async (authorizationUrl, stateText) => {
            const answer = Promise.withResolvers<McpConsent>()
            answer.promise.catch(() => {})
            job.consent = { state: stateText, redirectUrl: listener.redirectUrl, answer }
            listener.consent = job.consent
            job.status = {
              ...{ ok: true, status: 'authorizing', job_id, callback_ready: true },
              authorization_url: authorizationUrl.href,
            }
            onReady()
            return await raceAbort(answer.promise, signal)
          },
          signal,
        })
      }
      const { state: _, ...rest } = auth
      const signedIn =
        state === undefined && auth.state === undefined ? undefined : { ...rest, state: state ?? auth.state }
      const tested = { ...request, server: { ...server, auth: signedIn } }
      const result = await this.#test(tested, signal)
      const common = { job_id, callback_ready: job.consent !== undefined }
      job.status = result.ok
        ? {
            ...common,
            ...result,
            status: 'succeeded',
            ...(state === undefined ? {} : { oauth_state: state }),
          }
        : { ...common, ...result, status: 'failed' }
    } catch (error) {
      const isLate = timeout.aborted
      const text = isLate
        ? `The sign-in timed out after ${request.timeout.toFixed(1)} seconds`
        : failureText(error)
      job.status = {
        ...{ ok: false, status: 'failed', job_id, callback_ready: job.consent !== undefined },
        ...{ error: text, error_kind: isLate ? 'timeout' : 'connection' },
      }
    }
  }
}

/** Whether the answer of the provider has the code for this sign-in; otherwise the sign-in fails. */
function acceptConsent({ state, answer }: Consent, members: URLSearchParams): boolean {
  const code = members.get('code')
  if (members.get('state') === state && members.get('error') === null && code !== null && code !== '') {
    answer.resolve({ code, iss: members.get('iss') ?? undefined })
    return true
  }
  const text =
    members.get('error') === 'access_denied'
      ? 'Access was denied by the authorization server.'
      : 'The authorization server gave no valid answer.'
  answer.reject(new Error(text))
  return false
}

/** Receives a browser on this machine at the end of the consent. */
class CallbackListener implements AsyncDisposable {
  readonly #server: Server
  readonly redirectUrl: URL
  consent: Consent | undefined

  private constructor(server: Server, redirectUrl: URL) {
    this.#server = server
    this.redirectUrl = redirectUrl
  }

  static async open(): Promise<CallbackListener> {
    const { createServer } = await import('node:http')
    const server = createServer((request, response) => {
      const url = URL.parse(request.url ?? '', listener.redirectUrl)
      const { consent } = listener
      const isForeign = consent === undefined || url?.pathname !== listener.redirectUrl.pathname
      // A page that knows no state neither ends nor disturbs the sign-in.
      if (isForeign || url.searchParams.get('state') !== consent.state) response.writeHead(404).end()
      else if (acceptConsent(consent, url.searchParams)) response.end('You are signed in. Close this page.')
      else response.writeHead(400).end('The sign-in has failed.')
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const listener = new CallbackListener(server, new URL(`http://localhost:${port}/callback`))
    return listener
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

/** Without addresses and bodies, which could have secrets. */
function failureText(error: unknown): string {
  return error instanceof Error ? firstChars(errorTextWithCause(error), 1000) : 'The sign-in failed.'
}
