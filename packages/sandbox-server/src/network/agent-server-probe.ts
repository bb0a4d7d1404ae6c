import { readLimited } from '@slipway/shared/async'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { Secret } from '@slipway/shared/redaction'
import type { Clock } from '@slipway/shared/time'

export type Health =
  | { readonly kind: 'ready' }
  /** It waits for its init request (wire 1.21). */
  | { readonly kind: 'dormant' }
  | { readonly kind: 'pending'; readonly why: string }

export interface ProbeContext {
  readonly fetch: typeof globalThis.fetch
  readonly clock: Clock
  readonly signal: AbortSignal
}

const requestTimeoutMs = 5_000
const clockToleranceMs = 5_000
/** A longer answer counts as none: sandboxes are not trusted. */
const maxAnswerBytes = 64 * 1024

/** Whether an agent server is ready and accepts the key: a foreign one would not. Rejects by the signal. */
export async function probeHealth(url: string, key: string, context: ProbeContext): Promise<Health> {
  const ready = await fetchJson(`${url}/ready`, {}, context)
  if (typeof ready === 'string') return pending(ready)
  if (ready.status === 503 && readinessState(ready.body) === 'dormant') return { kind: 'dormant' }
  // Some agent servers have no such route: the next request decides.
  if (ready.status !== 200 && ready.status !== 404) return pending(`/ready answers ${ready.status}`)
  const health = await probeKey(url, key, context)
  if (health.kind === 'ready') return health
  return (await isDormant(url, context)) ? { kind: 'dormant' } : health
}

/** Whether it waits for its settings: `/ready` of such a server is 200 or, of earlier ones, 503. */
export async function isDormant(url: string, context: ProbeContext): Promise<boolean> {
  const init = await fetchJson(`${url}/api/init`, {}, context)
  return typeof init !== 'string' && init.status === 200 && readinessState(init.body) === 'dormant'
}

/** Of one start of an agent server: its id, or of those that tell none the time of it, in milliseconds. */
export type AgentInstance = string | number

/** Undefined when it does not tell. */
export async function fetchInstance(
  { url, key }: { readonly url: string; readonly key: Secret },
  context: ProbeContext,
): Promise<AgentInstance | undefined> {
  const info = await fetchJson(`${url}/server_info`, { headers: keyHeader(key.reveal()) }, context)
  if (typeof info === 'string' || info.status !== 200 || !isRecord(info.body)) return undefined
  const { instance_id, uptime } = info.body
  if (typeof instance_id === 'string') return instance_id
  return typeof uptime === 'number' ? context.clock.now() - uptime * 1000 : undefined
}

/** Times are of whole seconds and of clocks that are set now and then. */
export function isSameInstance(one: AgentInstance, other: AgentInstance): boolean {
  if (typeof one !== 'number' || typeof other !== 'number') return one === other
  return Math.abs(one - other) < clockToleranceMs
}

/** Whether it accepts the key. */
export async function probeKey(url: string, key: string, context: ProbeContext): Promise<Health> {
  const count = await fetchJson(`${url}/api/conversations/count`, { headers: keyHeader(key) }, context)
  if (typeof count === 'string') return pending(count)
  if (count.status === 200) return { kind: 'ready' }
  const isRefused = count.status === 401 || count.status === 403
  return pending(isRefused ? 'it does not accept its session key' : `it answers ${count.status}`)
}

/** Sends the settings to a dormant agent server. Returns why it refuses them. */
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

/** Status and body of an answer; a text that says why there is none. */
export async function fetchJson(
  url: string,
  init: RequestInit,
  { fetch, clock, signal }: ProbeContext,
): Promise<{ readonly status: number; readonly body: unknown } | string> {
  signal.throwIfAborted()
  const requestSignal = AbortSignal.any([signal, clock.timeout(requestTimeoutMs)])
  try {
    // A redirect could send the key elsewhere.
    const response = await fetch(url, { ...init, redirect: 'manual', signal: requestSignal })
    const bytes = await readLimited(response, maxAnswerBytes)
    return { status: response.status, body: parseJson(bytes?.toString() ?? '') }
  } catch {
    signal.throwIfAborted()
    return requestSignal.aborted ? 'it does not answer in time' : 'it does not answer'
  }
}

/** `{"status": "dormant"}`, or `{"detail": {"state": "dormant"}}` and the like of other agent servers. */
function readinessState(body: unknown): unknown {
  const inner = isRecord(body) && 'detail' in body ? body.detail : body
  if (!isRecord(inner)) return undefined
  return 'status' in inner ? inner.status : inner.state
}

function pending(why: string): Health {
  return { kind: 'pending', why }
}
