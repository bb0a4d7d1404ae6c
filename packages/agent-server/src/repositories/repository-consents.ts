import { createHash } from 'node:crypto'
import type { RepositoryCode, RepositoryConsents as RepositoryGate } from '@slipway/agent'
import {
  must,
  Problem,
  type RepositoryConsent,
  type RepositoryDecision,
  type RepositoryTrust,
  repositoryConsent,
} from '@slipway/protocol'
import type { Cipher, JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'

const maxConsents = 1_000
/** An agent can change what its repository brings as often as it likes. */
const maxPending = 100

interface RepositoryConsentsOptions {
  readonly path: string
  readonly cipher: Cipher
  readonly trust: RepositoryTrust
  /** Milliseconds. */
  readonly now?: () => number
}

/**
 * The user's decisions about what repositories bring, by repository and content: one sealed file. An
 * unreadable file
 * is a Problem `conflict`.
 */
export class RepositoryConsents implements RepositoryGate {
  readonly trust: RepositoryTrust
  readonly #now: () => number
  readonly #file: JsonDocument<readonly RepositoryConsent[]>

  constructor({ path, cipher, trust, now = Date.now }: RepositoryConsentsOptions) {
    this.trust = trust
    this.#now = now
    const parse = (value: unknown) => repositoryConsent.array().parse(value)
    this.#file = openJsonFile<readonly RepositoryConsent[]>({ path, empty: [], parse, cipher })
  }

  /** The newest first. */
  async list(): Promise<RepositoryConsent[]> {
    return [...(await this.#file.read())].reverse()
  }

  async check(code: RepositoryCode): ReturnType<RepositoryGate['check']> {
    const id = consentId(code)
    if (this.trust === 'always') return { id, verdict: 'trusted' }
    const { decision } = await this.register(code).catch(pendingWhenUnreadable)
    if (decision !== 'pending') return { id, verdict: decision }
    return { id, verdict: this.trust === 'ask' ? 'pending' : 'skipped' }
  }

  /** The consent for this content; a new one is pending. */
  async register(code: RepositoryCode): Promise<RepositoryConsent> {
    const id = consentId(code)
    const existing = (await this.#file.read()).find((one) => one.id === id)
    if (existing !== undefined) return existing
    const { repository, hash, items } = code
    const times = { created_at: this.#timestamp(), decided_at: null }
    const consent: RepositoryConsent = {
      id,
      repository,
      hash,
      decision: 'pending',
      items: [...items],
      ...times,
    }
    const all = await this.#file.update((all) =>
      all.some((one) => one.id === id) ? all : [...withRoom(all), consent],
    )
    return must(
      all.find((one) => one.id === id),
      'the registered consent',
    )
  }

  /** A Problem `not_found` for an unknown id. */
  async decide(id: string, decision: RepositoryDecision): Promise<RepositoryConsent> {
    const changes = {
      decision: decision === 'allow' ? 'allowed' : 'denied',
      decided_at: this.#timestamp(),
    } as const
    const all = await this.#file.update((all) => {
      findConsent(all, id)
      return all.map((one) => (one.id === id ? { ...one, ...changes } : one))
    })
    return findConsent(all, id)
  }

  /** Forgets a decision; a Problem `not_found` for an unknown id. */
  async revoke(id: string): Promise<RepositoryConsent> {
    let revoked: RepositoryConsent | undefined
    await this.#file.update((all) => {
      revoked = findConsent(all, id)
      return all.filter((one) => one.id !== id)
    })
    return must(revoked, 'the revoked consent')
  }

  #timestamp(): string {
    return new Date(this.#now()).toISOString()
  }
}

/** Decisions that cannot be read count as not made. */
function pendingWhenUnreadable(error: unknown): Pick<RepositoryConsent, 'decision'> {
  if (error instanceof Problem && error.code === 'conflict') return { decision: 'pending' }
  throw error
}

function consentId({ repository, hash }: RepositoryCode): string {
  return createHash('sha256').update(`${repository}\0${hash}`).digest('hex').slice(0, 32)
}

function findConsent(all: readonly RepositoryConsent[], id: string): RepositoryConsent {
  const found = all.find((one) => one.id === id)
  if (found === undefined) throw new Problem('not_found', 'There is no such consent')
  return found
}

/** Drops the oldest that nobody has decided when there are too many of them, else the oldest of all. */
function withRoom(all: readonly RepositoryConsent[]): readonly RepositoryConsent[] {
  const pending = all.filter(({ decision }) => decision === 'pending')
  const dropped = pending.length >= maxPending ? pending[0] : all.length >= maxConsents ? all[0] : undefined
  return all.filter((one) => one !== dropped)
}
