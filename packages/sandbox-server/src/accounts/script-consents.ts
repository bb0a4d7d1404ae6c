import { hash } from 'node:crypto'
import type { RepositoryConsent, RepositoryDecision } from '@slipway/protocol'
import { consentsFormat, StoredConsents } from '@slipway/storage'
import { type AccountDocuments, userDocument } from './user-documents.ts'

/** The scripts of a repository that a start would run. */
export interface RepositoryScripts {
  /** Its address, without a password. */
  readonly repository: string
  /** Names and digests. */
  readonly content: string
  readonly items: RepositoryConsent['items']
}

/** The decisions of each user about the scripts of repositories, by repository and content. */
export class ScriptConsents {
  readonly #stored: StoredConsents

  constructor(deps: AccountDocuments) {
    const { empty, parse } = consentsFormat
    // Decisions without their scripts, as a development version stored them, are asked for again.
    const parseAny = (value: unknown) => (Array.isArray(value) ? parse(value) : empty)
    this.#stored = new StoredConsents(userDocument(deps, 'script-consents', { empty, parse: parseAny }))
  }

  /** The newest first. */
  list(owner: string | null): Promise<RepositoryConsent[]> {
    return this.#stored.list(owner ?? '')
  }

  find(owner: string | null, id: string): Promise<RepositoryConsent | undefined> {
    return this.#stored.find(id, owner ?? '')
  }

  /** The consent for this content, which is pending when it is new, or what it becomes by a decision. */
  async register(
    owner: string | null,
    { repository, content, items }: RepositoryScripts,
    decision?: RepositoryDecision,
  ): Promise<RepositoryConsent> {
    const id = hash('sha256', `${repository}\0${content}`).slice(0, 32)
    const consent = await this.#stored.register(
      { id, repository, hash: hash('sha256', content), items },
      owner ?? '',
    )
    return decision === undefined ? consent : await this.decide(owner, id, decision)
  }

  /** A Problem `not_found` for an unknown id. */
  decide(owner: string | null, id: string, decision: RepositoryDecision): Promise<RepositoryConsent> {
    return this.#stored.decide(id, decision, owner ?? '')
  }

  /** Forgets a decision; a Problem `not_found` for an unknown id. */
  revoke(owner: string | null, id: string): Promise<RepositoryConsent> {
    return this.#stored.revoke(id, owner ?? '')
  }
}
