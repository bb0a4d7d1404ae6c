import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { ConsoleAccounts, ConsoleUser } from '@slipway/http'
import { Mutex } from '@slipway/shared/async'
import { readPrivateFile, writeFileAtomic } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { Secret } from '@slipway/shared/redaction'

const maxSessions = 200

interface StoredSession {
  /** Digests of the session's key and of the key that it was made with. */
  readonly session: string
  readonly key: string
  readonly expires_at_ms: number
}

/**
 * The console sessions of an agent server: each has the rights of a session key while that is configured.
 * Digests and ends are in `console.sessions` of the data directory, so that a restart signs nobody out.
 */
export class ConsoleSessions implements ConsoleAccounts {
  readonly #path: string
  readonly #keys: () => readonly Secret[] | undefined
  readonly #mutex = new Mutex()
  #sessions: ReadonlyMap<string, StoredSession>

  private constructor(
    path: string,
    keys: () => readonly Secret[] | undefined,
    sessions: readonly StoredSession[],
  ) {
    this.#path = path
    this.#keys = keys
    this.#sessions = new Map(sessions.map((session) => [session.session, session]))
  }

  /** `keys` are the session keys of the moment; undefined while they are unknown. */
  static async open(directory: string, keys: () => readonly Secret[] | undefined): Promise<ConsoleSessions> {
    const path = join(directory, 'console.sessions')
    const stored = parseJson((await readPrivateFile(path)) ?? '')
    return new ConsoleSessions(path, keys, Array.isArray(stored) ? stored.filter(isStoredSession) : [])
  }

  get isKeyRequired(): boolean {
    return this.#keys()?.length !== 0
  }

  /** Whether this is the key of a session that goes on. */
  isSessionKey(key: string): boolean {
    const session = this.#sessions.get(digest(key))
    return session !== undefined && Date.now() < session.expires_at_ms && this.#isConfigured(session.key)
  }

  async findUser(key: string): Promise<ConsoleUser | undefined> {
    const rights = {
      user_id: null,
      user_name: null,
      org_id: null,
      scopes: ['read', 'write', 'admin'],
      is_admin: true,
    } as const
    const user = { ...rights, scopes: [...rights.scopes] }
    if (this.isSessionKey(key))
      return { ...user, expiresAtMs: this.#sessions.get(digest(key))?.expires_at_ms ?? 0 }
    return this.#isConfigured(digest(key)) ? { ...user, expiresAtMs: null } : undefined
  }

  async addSession(key: string, sessionKey: string, expiresAtMs: number): Promise<void> {
    const root = this.#sessions.get(digest(key))?.key ?? digest(key)
    const added = { session: digest(sessionKey), key: root, expires_at_ms: expiresAtMs }
    await this.#change((sessions) => [...sessions, added])
  }

  async removeSession(sessionKey: string): Promise<boolean> {
    const removed = digest(sessionKey)
    if (!this.#sessions.has(removed)) return false
    await this.#change((sessions) => sessions.filter(({ session }) => session !== removed))
    return true
  }

  /** Durable before it counts. */
  async #change(change: (sessions: readonly StoredSession[]) => readonly StoredSession[]): Promise<void> {
    await this.#mutex.runExclusive(async () => {
      const now = Date.now()
      const current = [...this.#sessions.values()].filter(({ expires_at_ms }) => now < expires_at_ms)
      const next = change(current).slice(-maxSessions)
      await writeFileAtomic(this.#path, JSON.stringify(next))
      this.#sessions = new Map(next.map((session) => [session.session, session]))
    })
  }

  #isConfigured(keyDigest: string): boolean {
    return this.#keys()?.some((key) => digest(key.reveal()) === keyDigest) === true
  }
}

function digest(key: string): string {
  return hash('sha256', key)
}

function isStoredSession(value: unknown): value is StoredSession {
  return (
    isRecord(value) &&
    typeof value.session === 'string' &&
    typeof value.key === 'string' &&
    typeof value.expires_at_ms === 'number'
  )
}
