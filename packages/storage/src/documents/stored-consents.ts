import {
  must,
  Problem,
  type RepositoryConsent,
  type RepositoryDecision,
  repositoryConsent,
} from '@slipway/protocol'
import type { JsonDocument } from './json-document.ts'

const maxConsents = 1_000
/** An agent can change what its repository brings as often as it likes. */
const maxPending = 100

/** The form of the document. */
export const consentsFormat = {
  empty: [] as readonly RepositoryConsent[],
  parse: (value: unknown): readonly RepositoryConsent[] => repositoryConsent.array().parse(value),
}

/**
 * Decisions about what repositories bring, by repository and content. A server without users omits the owner.
 * The oldest that no one has decided is forgotten above 100 of them, else the oldest of all above 1,000.
 */
export class StoredConsents {
  readonly #document: JsonDocument<readonly RepositoryConsent[]>
  readonly #now: () => number

  /** @param now milliseconds. */
  constructor(document: JsonDocument<readonly RepositoryConsent[]>, now: () => number = Date.now) {
    this.#document = document
    this.#now = now
  }

  /** The newest first. */
  async list(owner?: string): Promise<RepositoryConsent[]> {
    return [...(await this.#document.read(owner))].reverse()
  }

  async find(id: string, owner?: string): Promise<RepositoryConsent | undefined> {
    return (await this.#document.read(owner)).find((one) => one.id === id)
  }

  /** The consent of the id; a new one is pending. */
  async register(
    code: Pick<RepositoryConsent, 'id' | 'repository' | 'hash' | 'items'>,
    owner?: string,
  ): Promise<RepositoryConsent> {
    const { id, repository, hash, items } = code
    const existing = await this.find(id, owner)
    if (existing !== undefined) return existing
    const times = { created_at: this.#timestamp(), decided_at: null }
    const consent: RepositoryConsent = { id, repository, hash, decision: 'pending', items, ...times }
    const all = await this.#document.update(
      (all) => (all.some((one) => one.id === id) ? all : [...withRoom(all), consent]),
      owner,
    )
    return must(
      all.find((one) => one.id === id),
      'the registered consent',
    )
  }

  /** A Problem `not_found` for an unknown id. */
  async decide(id: string, decision: RepositoryDecision, owner?: string): Promise<RepositoryConsent> {
    const changes = {
      decision: decision === 'allow' ? 'allowed' : 'denied',
      decided_at: this.#timestamp(),
    } as const
    const all = await this.#document.update((all) => {
      findConsent(all, id)
      return all.map((one) => (one.id === id ? { ...one, ...changes } : one))
    }, owner)
    return findConsent(all, id)
  }

  /** Forgets a decision; a Problem `not_found` for an unknown id. */
  async revoke(id: string, owner?: string): Promise<RepositoryConsent> {
    let revoked: RepositoryConsent | undefined
    await this.#document.update((all) => {
      revoked = findConsent(all, id)
      return all.filter((one) => one.id !== id)
    }, owner)
    return must(revoked, 'the revoked consent')
  }

  #timestamp(): string {
    return new Date(this.#now()).toISOString()
  }
}

function findConsent(all: readonly RepositoryConsent[], id: string): RepositoryConsent {
  const found = all.find((one) => one.id === id)
  if (found === undefined) throw new Problem('not_found', 'There is no such consent')
  return found
}

/** Drops the oldest that no one has decided when there are too many of them, else the oldest of all. */
function withRoom(all: readonly RepositoryConsent[]): readonly RepositoryConsent[] {
  const pending = all.filter(({ decision }) => decision === 'pending')
  const dropped = pending.length >= maxPending ? pending[0] : all.length >= maxConsents ? all[0] : undefined
  return all.filter((one) => one !== dropped)
}
