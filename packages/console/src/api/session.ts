import { CallError, Client, ConnectionError, readCallError, SandboxServerClient } from '@slipway/client'
import { useSyncExternalStore } from 'react'
import { Store } from './store.ts'

export type ServerKind = 'agent' | 'sandbox'

/** What the console knows of its server and of who uses it. */
export type Session =
  | { readonly status: 'starting' }
  | { readonly status: 'offline' }
  | { readonly status: 'unknown-server' }
  | { readonly status: 'signed-out'; readonly kind: ServerKind; readonly message?: string }
  | {
      /** A link signs in as another user than the one who is signed in. */
      readonly status: 'other-user'
      readonly kind: ServerKind
      readonly message: string
      readonly token: string
    }
  | {
      readonly status: 'ready'
      readonly kind: ServerKind
      readonly version: string
      /** Who is signed in, on a server with users. */
      readonly user?: string
      /** Whether there is a session or a key to end. */
      readonly canSignOut: boolean
    }

/** The address below which the server is, without a slash at its end. */
export const baseUrl = new URL('.', document.baseURI).href.replace(/\/$/, '')

const session = new Store<Session>({ status: 'starting' })
/** False after a request got no answer, until one is answered. */
const connectivity = new Store<boolean>(true)

/** GET of a path of the server, for answers that the client has no call for. */
export async function getFromServer(path: string, signal?: AbortSignal): Promise<Response> {
  return await fetchWithKey(path, { signal: signal ?? null })
}

/** Uploads a file to a path of the server. Rejects with a CallError when the server refuses. */
export async function postFile(path: string, file: File): Promise<void> {
  const body = new FormData()
  body.set('file', file)
  const response = await fetchWithKey(path, { method: 'POST', body })
  if (!response.ok) throw await readCallError(response)
}

async function fetchWithKey(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers()
  if (typedKey !== undefined) headers.set('x-session-api-key', typedKey)
  return await watchedFetch(`${baseUrl}/${path}`, { ...init, headers })
}

/** A typed key, when the server has no sessions for browsers: in memory, gone with the page. */
let typedKey: string | undefined
/** Whether the server has sessions for browsers; otherwise a key is sent with every request. */
let hasSessions = false
/**
 * Where the proof is kept that goes beside the cookie of the session. It is no key: without the cookie, which
 * no script can read, it is worth nothing.
 */
const proofName = 'slipway-console-proof'
const sessionUrl = `${baseUrl}/console/session`

export let agentServer = new Client({ url: baseUrl, fetch: watchedFetch })
export let sandboxServer = new SandboxServerClient({ url: baseUrl, fetch: watchedFetch })

/** Whether the server is the control plane; known once a page is shown. */
export function isSandboxServer(): boolean {
  const current = session.get()
  return current.status === 'ready' && current.kind === 'sandbox'
}

export function useSession(): Session {
  return useSyncExternalStore(session.subscribe, session.get)
}

export function useIsOnline(): boolean {
  return useSyncExternalStore(connectivity.subscribe, connectivity.get)
}

/** Calls back when the server answers again after it did not. */
export function onReconnect(listener: () => void): () => void {
  let wasOnline = connectivity.get()
  return connectivity.subscribe(() => {
    const isOnline = connectivity.get()
    if (isOnline && !wasOnline) listener()
    wasOnline = isOnline
  })
}

/** Finds out which server this is and whether it must be signed in to. Never rejects. */
export async function startSession(): Promise<void> {
  await openSession(takeToken())
}

/** Answers the question of the status `other-user`. */
export async function answerLink(token: string, isAccepted: boolean): Promise<void> {
  session.set({ status: 'starting' })
  await openSession(isAccepted ? token : undefined, isAccepted)
}

async function openSession(token: string | undefined, replace = false): Promise<void> {
  let message: string | undefined
  try {
    let info = await readServerInfo()
    if (info === undefined) return session.set({ status: 'unknown-server' })
    if (token !== undefined && hasSessions) {
      const answer = await postSession({ token, replace }).catch((error: unknown) => {
        if (!(error instanceof CallError)) throw error
        message = error.detail
      })
      if (answer !== undefined && 'otherUser' in answer)
        return session.set({ status: 'other-user', kind: info.kind, message: answer.otherUser, token })
      if (answer?.isAccepted === false)
        message = 'The sign-in link was used already, or is too old. Make another with: slipway open'
      info = (await readServerInfo()) ?? info
    }
    const { kind, version, user } = info
    const isReady = info.isReady ?? (await probe(kind))
    const canSignOut = info.canSignOut ?? typedKey !== undefined
    if (isReady)
      session.set({ status: 'ready', kind, version, canSignOut, ...(user !== undefined && { user }) })
    else session.set({ status: 'signed-out', kind, ...(message === undefined ? {} : { message }) })
  } catch {
    session.set({ status: 'offline' })
    setTimeout(() => void startSession(), 2_000)
  }
}

/** Signs in with a key; resolves to whether it was right. */
export async function signIn(key: string): Promise<boolean> {
  if (!hasSessions) setKey(key)
  else {
    const answer = await postSession({ key })
    if (!('isAccepted' in answer && answer.isAccepted)) return false
  }
  await startSession()
  return session.get().status === 'ready'
}

export async function signOut(): Promise<void> {
  await watchedFetch(sessionUrl, { method: 'DELETE' }).catch(() => undefined)
  localStorage.removeItem(proofName)
  setKey(undefined)
  await startSession()
}

/** To be called with every error of a call: 401 shows the form for the key. */
export function noteError(error: unknown): void {
  const current = session.get()
  if (error instanceof CallError && error.status === 401 && current.status === 'ready')
    session.set({
      status: 'signed-out',
      kind: current.kind,
      message: 'The session has ended. Sign in again.',
    })
}

/** What a person can do about an error, in the words of the server where it gave some. */
export function errorText(error: unknown): string {
  if (error instanceof CallError) return error.detail
  if (error instanceof ConnectionError) return 'The server does not answer.'
  return error instanceof Error ? error.message : String(error)
}

function setKey(key: string | undefined): void {
  typedKey = key
  agentServer = new Client({ url: baseUrl, sessionApiKey: key, fetch: watchedFetch })
  sandboxServer = new SandboxServerClient({ url: baseUrl, apiKey: key, fetch: watchedFetch })
}

/** Takes the token of a sign-in link out of the address, so that neither history nor bookmarks have it. */
function takeToken(): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get('token') ?? undefined
  if (token !== undefined) history.replaceState(null, '', location.pathname + location.search)
  return token
}

/**
 * Whether the credential was accepted, or that it is of another user than the one who is signed in. Rejects
 * with the server's reason where neither is so: a foreign page, too many attempts.
 */
async function postSession(
  credential: { token: string; replace: boolean } | { key: string },
): Promise<{ readonly isAccepted: boolean } | { readonly otherUser: string }> {
  const response = await watchedFetch(sessionUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(credential),
  })
  if (response.status === 409) return { otherUser: (await readCallError(response)).detail }
  if (response.status === 401) return { isAccepted: false }
  if (!response.ok) throw await readCallError(response)
  const { proof }: { proof?: unknown } = await response.json()
  if (typeof proof === 'string') localStorage.setItem(proofName, proof)
  return { isAccepted: true }
}

interface ServerInfo {
  readonly kind: ServerKind
  readonly version: string
  readonly user?: string
  /** Undefined where a call has to show it. */
  readonly isReady?: boolean
  readonly canSignOut?: boolean
}

/** Undefined when it is no server of ours. */
async function readServerInfo(): Promise<ServerInfo | undefined> {
  const known = await readJson(sessionUrl)
  hasSessions = known !== undefined && 'server' in known
  if (known !== undefined && hasSessions) {
    const isSignedIn = known.signed_in === true
    const user = known.user_name ?? known.user_id ?? null
    return {
      kind: known.server === 'sandbox' ? 'sandbox' : 'agent',
      version: String(known.version ?? ''),
      // A key that was typed counts where the session does not.
      ...(typedKey === undefined && { isReady: isSignedIn || known.auth_required === false }),
      ...(isSignedIn && { canSignOut: true }),
      ...(user !== null && { user: String(user) }),
    }
  }
  const info = await readJson(`${baseUrl}/server_info`)
  const title = String(info?.title ?? '')
  if (!title.includes('Slipway')) return undefined
  return {
    kind: title.includes('Sandbox') ? 'sandbox' : 'agent',
    version: String(info?.slipway_version ?? ''),
  }
}

/** A JSON object; undefined for any other answer. Rejects while the server does not answer or is starting. */
async function readJson(url: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  const response = await watchedFetch(url)
  if (response.status >= 500) throw new Error('The server is not ready')
  const value: unknown = response.ok ? await response.json().catch(() => undefined) : undefined
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
}

async function probe(kind: ServerKind): Promise<boolean> {
  try {
    if (kind === 'agent') await agentServer.call('countConversations', {})
    else await sandboxServer.call('me', {})
    return true
  } catch (error) {
    if (error instanceof CallError && (error.status === 401 || error.status === 403)) return false
    throw error
  }
}

/** `fetch` that knows whether the server answers, and proves that the cookie is that of this console. */
async function watchedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const headers = new Headers(init?.headers)
  const proof = localStorage.getItem(proofName)
  if (proof !== null) headers.set('x-console-proof', proof)
  try {
    const response = await fetch(input, { ...init, headers })
    connectivity.set(true)
    return response
  } catch (error) {
    if (!init?.signal?.aborted) loseConnection()
    throw error
  }
}

let isProbing = false
function loseConnection(): void {
  connectivity.set(false)
  if (isProbing) return
  isProbing = true
  const retry = async () => {
    const isBack = await fetch(`${baseUrl}/alive`).then(
      (response) => response.ok,
      () => false,
    )
    if (!isBack) return void setTimeout(() => void retry(), 1_500)
    isProbing = false
    connectivity.set(true)
  }
  setTimeout(() => void retry(), 500)
}
