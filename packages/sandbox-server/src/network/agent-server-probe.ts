/** What an agent server says of itself. `pending` tells why it is not ready. */
export type Health =
  | { readonly kind: 'ready' }
  /** It waits for its settings (wire 1.21). */
  | { readonly kind: 'dormant' }
  | { readonly kind: 'pending'; readonly why: string }

export interface Ask {
  readonly fetch: typeof globalThis.fetch
  readonly signal: AbortSignal
}

const tryMs = 5_000
/** What a sandbox answers is not trusted: more than this of it is not read. */
const maxAnswerBytes = 64 * 1024

/**
 * Asks the agent server at a base address whether it is ready and takes the session key; it is asked with the key, so that one
 * which lets everybody in, or belongs to somebody else, is told apart. Never rejects but by the signal.
 */
export async function probe(url: string, key: string | null, ask: Ask): Promise<Health> {
  const ready = await answerOf(`${url}/ready`, {}, ask)
  if (typeof ready === 'string') return pending(ready)
  if (ready.status === 503 && stateOf(ready.body) === 'dormant') return { kind: 'dormant' }
  // Some agent servers have no such route: the next question decides.
  if (ready.status !== 200 && ready.status !== 404) return pending(`/ready answers ${ready.status}`)
  if (key === null) return pending('it does not wait for its settings')
  const counted = await answerOf(`${url}/api/conversations/count`, { headers: keyHeader(key) }, ask)
  if (typeof counted === 'string') return pending(counted)
  if (counted.status === 200) return { kind: 'ready' }
  const isRefused = counted.status === 401 || counted.status === 403
  return pending(isRefused ? 'it does not accept its session key' : `it answers ${counted.status}`)
}

/** Gives its settings to one that waits for them. Undefined when it took them, else why not. */
export async function initialise(
  url: string,
  initKey: string | null,
  body: object,
  ask: Ask,
): Promise<string | undefined> {
  const headers = { 'content-type': 'application/json', 'x-init-api-key': initKey ?? '' }
  const init = { method: 'POST', headers, body: JSON.stringify(body) }
  const answer = await answerOf(`${url}/api/init`, init, ask)
  if (typeof answer === 'string') return answer
  return answer.status === 200 ? undefined : `it refuses its settings with ${answer.status}`
}

export function keyHeader(key: string): Record<string, string> {
  return { 'x-session-api-key': key }
}

/** Status and body of a short answer; a text that says why when there is none. */
export async function answerOf(
  url: string,
  init: RequestInit,
  { fetch, signal }: Ask,
): Promise<{ readonly status: number; readonly body: unknown } | string> {
  signal.throwIfAborted()
  const limited = AbortSignal.any([signal, AbortSignal.timeout(tryMs)])
  try {
    // A sandbox does not choose where its key is sent.
    const response = await fetch(url, { ...init, redirect: 'manual', signal: limited })
    return { status: response.status, body: parsed(await shortText(response)) }
  } catch {
    signal.throwIfAborted()
    return limited.aborted ? 'it does not answer in time' : 'it does not answer'
  }
}

async function shortText(response: Response): Promise<string> {
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

function parsed(text: string): unknown {
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
function stateOf(body: unknown): unknown {
  const inner = hasMember(body, 'detail') ? body.detail : body
  if (hasMember(inner, 'status')) return inner.status
  return hasMember(inner, 'state') ? inner.state : undefined
}

function pending(why: string): Health {
  return { kind: 'pending', why }
}
