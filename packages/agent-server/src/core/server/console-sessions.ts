import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { ConsoleAccounts, ConsoleUser } from '@slipway/http'
import { Problem, rethrowStorageFailure } from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import { errorCode, findPrivateFile, writeFileAtomic } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { Secret } from '@slipway/shared/redaction'
import { unreadableFile } from '../documents/json-file.ts'

const maxSessions = 200

interface StoredSession {
  /** Digests of the session's key and of the key that it was made with. */
  readonly session: string
  readonly key: string
  readonly expires_at_ms: number
}

/** What the file has; `problem` says why that is unknown. */
interface Stored {
  readonly sessions: ReadonlyMap<string, StoredSession>
  readonly problem?: string
}

/**
 * The console sessions of an agent server: each has the rights of a session key while that is configured.
 * Digests and ends are in `console.sessions` of the data directory, so that sessions survive a restart. While
 * that file cannot be read, session keys work, and signing in is a Problem `conflict` that names it.
 */
export class ConsoleSessions implements ConsoleAccounts {
  readonly #path: string
  readonly #keys: () => readonly Secret[] | undefined
  readonly #mutex = new Mutex()
  #stored: Stored

  private constructor(path: string, keys: () => readonly Secret[] | undefined, stored: Stored) {
    this.#path = path
    this.#keys = keys
    this.#stored = stored
  }

  /** `keys` are the session keys of the moment; undefined while they are unknown. */
  static async open(directory: string, keys: () => readonly Secret[] | undefined): Promise<ConsoleSessions> {
    const path = join(directory, 'console.sessions')
    return new ConsoleSessions(path, keys, await read(path))
  }

  get #sessions(): ReadonlyMap<string, StoredSession> {
    return this.#stored.sessions
  }

  get isKeyRequired(): boolean {
    return this.#keys()?.length !== 0
  }

  /** Whether this is the key of a session that continues. */
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
      // A failed write may have replaced the file.
      if (this.#stored.problem !== undefined) {
        const found = await read(this.#path)
        // The known sessions continue.
        if (found.problem !== undefined) throw new Problem('conflict', found.problem)
        this.#stored = found
      }
      const now = Date.now()
      const current = [...this.#sessions.values()].filter(({ expires_at_ms }) => now < expires_at_ms)
      const next = change(current).slice(-maxSessions)
      this.#stored = { ...this.#stored, problem: `${this.#path} could not be written` }
      await writeFileAtomic(this.#path, JSON.stringify(next)).catch((error) =>
        rethrowStorageFailure(error, this.#path),
      )
      this.#stored = { sessions: toMap(next) }
    })
  }

  #isConfigured(keyDigest: string): boolean {
    return this.#keys()?.some((key) => digest(key.reveal()) === keyDigest) === true
  }
}

/** A file that others may have written counts as none. */
async function read(path: string): Promise<Stored> {
  try {
    const text = (await findPrivateFile(path))?.text
    if (text === undefined) return { sessions: new Map() }
    const value = parseJson(text)
    if (Array.isArray(value) && value.every(isStoredSession)) return { sessions: toMap(value) }
    return { sessions: new Map(), problem: unreadableFile(path, text === '' ? 'empty' : 'form') }
  } catch (error) {
    const problem = `${path} cannot be read: the system says ${errorCode(error)}. Restore it from a backup, or move it away.`
    return { sessions: new Map(), problem }
  }
}

function toMap(sessions: readonly StoredSession[]): Stored['sessions'] {
  return new Map(sessions.map((session) => [session.session, session]))
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
