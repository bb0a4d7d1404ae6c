import { hash, randomBytes } from 'node:crypto'
import { Problem } from '@slipway/protocol'
import { LruMap } from '@slipway/shared/collections'
import { Secret } from '@slipway/shared/redaction'

const lifetimeMs = 600_000
const maxTokens = 100
const maxFailures = 10
const failureWindowMs = 60_000
const maxPeers = 1_000

/** One-time tokens for signing in, in memory only, and the limit of wrong ones. */
export class ConsoleTokens {
  /** By digest, so that a look-up tells nothing about other tokens. */
  readonly #tokens = new Map<string, { readonly key: Secret; readonly expiresAtMs: number }>()
  readonly #now: () => number
  /** The moments of wrong ones, by who sent them. */
  readonly #failures = new LruMap<string, readonly number[]>({ max: maxPeers })

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  /** A token that signs in once, with the rights of the key; of many the oldest is forgotten. */
  create(key: string): { readonly token: string; readonly expiresAtMs: number } {
    const token = randomBytes(24).toString('base64url')
    const expiresAtMs = this.#now() + lifetimeMs
    const [oldest] = this.#tokens.keys()
    if (this.#tokens.size >= maxTokens && oldest !== undefined) this.#tokens.delete(oldest)
    this.#tokens.set(hash('sha256', token), { key: new Secret(key), expiresAtMs })
    return { token, expiresAtMs }
  }

  /** The key of a token, which stays valid; undefined for any other text. */
  find(token: string): string | undefined {
    const entry = this.#tokens.get(hash('sha256', token))
    return entry !== undefined && this.#now() < entry.expiresAtMs ? entry.key.reveal() : undefined
  }

  /** The key of a token, which is used up; undefined for any other text. */
  take(token: string): string | undefined {
    const key = this.find(token)
    this.#tokens.delete(hash('sha256', token))
    return key
  }

  /** Throws a Problem `too_many` after ten failures of the same peer in a minute: others still sign in. */
  assertMayTry(peer: string): void {
    const now = this.#now()
    const recent = this.#recentFailures(peer)
    const [first] = recent
    if (recent.length < maxFailures || first === undefined) return
    const problem = new Problem('too_many', 'Too many wrong keys; wait a minute')
    problem.retryAfterSeconds = Math.ceil((first + failureWindowMs - now) / 1000)
    throw problem
  }

  countFailure(peer: string): void {
    this.#failures.set(peer, [...this.#recentFailures(peer), this.#now()])
  }

  #recentFailures(peer: string): readonly number[] {
    const now = this.#now()
    return (this.#failures.get(peer) ?? []).filter((at) => now - at < failureWindowMs)
  }
}
