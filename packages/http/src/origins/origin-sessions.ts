import { hash, randomBytes } from 'node:crypto'
import { type Clock, systemClock, type Timer } from '@slipway/shared/time'

const ticketMs = 60_000
const sessionMs = 86_400_000
const maxTickets = 100
const maxSessions = 100

interface Session {
  readonly ending: AbortController
  readonly timer: Timer
}

/**
 * What opens one origin: tickets, which are used once within a minute, and the sessions that they become. In
 * memory, by checksum; beyond a hundred the oldest ends.
 */
export class OriginSessions {
  readonly #clock: Clock
  readonly #tickets = new Map<string, number>()
  readonly #sessions = new Map<string, Session>()

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  createTicket(): { readonly ticket: string; readonly expiresAtMs: number } {
    const [oldest] = this.#tickets.keys()
    if (this.#tickets.size >= maxTickets && oldest !== undefined) this.#tickets.delete(oldest)
    const ticket = randomBytes(24).toString('base64url')
    const expiresAtMs = this.#clock.now() + ticketMs
    this.#tickets.set(hash('sha256', ticket), expiresAtMs)
    return { ticket, expiresAtMs }
  }

  /** The token of a new session; undefined for a ticket that is used, too old or none. */
  exchange(ticket: string): string | undefined {
    const id = hash('sha256', ticket)
    const expiresAtMs = this.#tickets.get(id)
    this.#tickets.delete(id)
    if (expiresAtMs === undefined || this.#clock.now() >= expiresAtMs) return undefined
    const [oldest] = this.#sessions.keys()
    if (this.#sessions.size >= maxSessions && oldest !== undefined) this.#end(oldest)
    const token = randomBytes(32).toString('base64url')
    const sessionId = hash('sha256', token)
    const timer = this.#clock.schedule(sessionMs, () => this.#end(sessionId), { ref: false })
    this.#sessions.set(sessionId, { ending: new AbortController(), timer })
    return token
  }

  /** The signal that aborts when the session ends. */
  find(token: string): AbortSignal | undefined {
    return this.#sessions.get(hash('sha256', token))?.ending.signal
  }

  endAll(): void {
    this.#tickets.clear()
    for (const id of [...this.#sessions.keys()]) this.#end(id)
  }

  #end(id: string): void {
    const session = this.#sessions.get(id)
    this.#sessions.delete(id)
    session?.timer.cancel()
    session?.ending.abort()
  }
}
