/** What an agent server says of itself. `pending` tells why it is not ready. */
export type Health =
  | { readonly kind: 'ready' }
  /** It waits for its settings (wire 1.21). */
  | { readonly kind: 'dormant' }
  | { readonly kind: 'pending'; readonly why: string }

export interface ProbeContext {
  readonly fetch: typeof globalThis.fetch
  readonly signal: AbortSignal
}

const requestTimeoutMs = 5_000
/** What a sandbox answers is not trusted: more than this of it is not read. */
const maxAnswerBytes = 64 * 1024

/**
 * Asks the agent server at a base address whether it is ready and takes the session key; it is asked with the key, so that one
 * which lets everybody in, or belongs to somebody else, is told apart. Never rejects but by the signal.
 */
export async function probeHealth(url: string, key: string | null, context: ProbeContext): Promise<Health> {
  const readyResponse = await fetchJson(`${url}/ready`, {}, context)
  if (typeof readyResponse === 'string') return pendingHealth(readyResponse)
  if (readyResponse.status === 503 && readinessState(readyResponse.body) === 'dormant')
    return { kind: 'dormant' }
  // Some agent servers have no such route: the next question decides.
  if (readyResponse.status !== 200 && readyResponse.status !== 404)
    return pendingHealth(`/ready answers ${readyResponse.status}`)
  if (key === null) return pendingHealth('it does not wait for its settings')
  const countResponse = await fetchJson(
    `${url}/api/conversations/count`,
    { headers: keyHeader(key) },
    context,
  )
  if (typeof countResponse === 'string') return pendingHealth(countResponse)
  if (countResponse.status === 200) return { kind: 'ready' }
  const isRefused = countResponse.status === 401 || countResponse.status === 403
  return pendingHealth(
    isRefused ? 'it does not accept its session key' : `it answers ${countResponse.status}`,
  )
}

/** Gives its settings to one that waits for them. Undefined when it took them, else why not. */
export async function sendInit(
  url: string,
  initKey: string | null,
  body: object,
  context: ProbeContext,
): Promise<string | undefined> {
  const headers = { 'content-type': 'application/json', 'x-init-api-key': initKey ?? '' }
  const init = { method: 'POST', headers, body: JSON.stringify(body) }
  const answer = await fetchJson(`${url}/api/init`, init, context)
  if (typeof answer === 'string') return answer
  return answer.status === 200 ? undefined : `it refuses its settings with ${answer.status}`
}

export function keyHeader(key: string): Record<string, string> {
  return { 'x-session-api-key': key }
}

/** Status and body of a short answer; a text that says why when there is none. */
export async function fetchJson(
  url: string,
  init: RequestInit,
  { fetch, signal }: ProbeContext,
): Promise<{ readonly status: number; readonly body: unknown } | string> {
  signal.throwIfAborted()
  const requestSignal = AbortSignal.any([signal, AbortSignal.timeout(requestTimeoutMs)])
  try {
    // A sandbox does not choose where its key is sent.
    const response = await fetch(url, { ...init, redirect: 'manual', signal: requestSignal })
    return { status: response.status, body: parseJson(await readLimitedText(response)) }
  } catch {
    signal.throwIfAborted()
    return requestSignal.aborted ? 'it does not answer in time' : 'it does not answer'
  }
}

async function readLimitedText(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  for (let size = 0; reader !== undefined; ) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.length
    if (size > maxAnswerBytes) {
      await reader.cancel()
      return ''
    }
    text += decoder.decode(value, { stream: true })
  }
  return text
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function hasMember<K extends string>(value: unknown, name: K): value is Record<K, unknown> {
  return typeof value === 'object' && value !== null && name in value
}

/** `{"status": "dormant"}`, or `{"detail": {"state": "dormant"}}` and the like of other agent servers. */
function readinessState(body: unknown): unknown {
  const inner = hasMember(body, 'detail') ? body.detail : body
  if (hasMember(inner, 'status')) return inner.status
  return hasMember(inner, 'state') ? inner.state : undefined
}

function pendingHealth(why: string): Health {
  return { kind: 'pending', why }
}
