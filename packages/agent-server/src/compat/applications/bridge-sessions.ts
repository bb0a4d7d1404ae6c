import { hash, randomBytes } from 'node:crypto'
import type { BackendProcess } from './backend-process.ts'

export type Program = Pick<BackendProcess, 'door' | 'ended'>

interface Session {
  readonly name: string
  /** The program that it was made for. */
  readonly program: Program
  readonly ending: AbortController
  readonly end: () => void
  readonly timer: NodeJS.Timeout
}

/** More of one application end the oldest one. */
const maxPerApplication = 1_000

/** What a browser holds of an application: kept in memory, by the checksum of its token. */
export class BridgeSessions {
  readonly #lifetimeMs: number
  readonly #sessions = new Map<string, Session>()

  constructor(lifetimeMs: number) {
    this.#lifetimeMs = lifetimeMs
  }

  get lifetimeMs(): number {
    return this.#lifetimeMs
  }

  /** `programEnded` ends it too. */
  create(name: string, program: Program): { readonly token: string; readonly expiresMs: number } {
    const own = [...this.#sessions].filter(([, session]) => session.name === name)
    for (const [id] of own.slice(0, Math.max(0, own.length + 1 - maxPerApplication))) this.#end(id)
    const token = randomBytes(32).toString('base64url')
    const id = hash('sha256', token)
    const end = () => this.#end(id)
    const timer = setTimeout(end, this.#lifetimeMs).unref()
    program.ended.addEventListener('abort', end, { once: true })
    const ending = new AbortController()
    this.#sessions.set(id, { name, program, ending, end, timer })
    return { token, expiresMs: Date.now() + this.#lifetimeMs }
  }

  /** The signal that aborts when the session ends; undefined when it is none of this program. */
  find(token: string, name: string, program: Program): AbortSignal | undefined {
    const session = this.#sessions.get(hash('sha256', token))
    return session?.name === name && session.program === program ? session.ending.signal : undefined
  }

  revoke(token: string, name: string): void {
    const id = hash('sha256', token)
    if (this.#sessions.get(id)?.name === name) this.#end(id)
  }

  #end(id: string): void {
    const session = this.#sessions.get(id)
    if (session === undefined) return
    this.#sessions.delete(id)
    clearTimeout(session.timer)
    session.program.ended.removeEventListener('abort', session.end)
    session.ending.abort()
  }
}
