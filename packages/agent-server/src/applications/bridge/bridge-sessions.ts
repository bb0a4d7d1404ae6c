import { hash, randomBytes } from 'node:crypto'

interface Session {
  readonly name: string
  /** The program that it was made for. */
  readonly port: number
  readonly ending: AbortController
  /** Ends it with the program. */
  readonly programEnded: AbortSignal
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
  create(
    name: string,
    program: { readonly port: number; readonly ended: AbortSignal },
  ): { readonly token: string; readonly expiresMs: number } {
    const own = [...this.#sessions].filter(([, session]) => session.name === name)
    for (const [id] of own.slice(0, Math.max(0, own.length + 1 - maxPerApplication))) this.#end(id)
    const token = randomBytes(32).toString('base64url')
    const id = hash('sha256', token)
    const end = () => this.#end(id)
    const timer = setTimeout(end, this.#lifetimeMs).unref()
    program.ended.addEventListener('abort', end, { once: true })
    const ending = new AbortController()
    this.#sessions.set(id, { name, port: program.port, ending, programEnded: program.ended, end, timer })
    return { token, expiresMs: Date.now() + this.#lifetimeMs }
  }

  /** The signal that aborts when the session ends; undefined when it is none of this program. */
  find(token: string, name: string, port: number): AbortSignal | undefined {
    const session = this.#sessions.get(hash('sha256', token))
    return session?.name === name && session.port === port ? session.ending.signal : undefined
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
    session.programEnded.removeEventListener('abort', session.end)
    session.ending.abort()
  }
}
