import { hash } from 'node:crypto'
import type { RepositoryCode, RepositoryConsents as RepositoryGate } from '@slipway/agent'
import {
  Problem,
  type RepositoryConsent,
  type RepositoryDecision,
  type RepositoryTrust,
} from '@slipway/protocol'
import { type Cipher, consentsFormat, type DocumentStore, StoredConsents } from '@slipway/storage'
import { openDocument } from '../../core/documents/document.ts'

interface RepositoryConsentsOptions {
  readonly documents: DocumentStore
  readonly cipher: Cipher
  readonly trust: RepositoryTrust
  /** Milliseconds. */
  readonly now?: () => number
}

/**
 * The user's decisions about what repositories bring, by repository and content: one sealed document. An
 * unreadable one is a Problem `conflict`, and nothing that was not decided is loaded.
 */
export class RepositoryConsents implements RepositoryGate {
  readonly trust: RepositoryTrust
  readonly #stored: StoredConsents

  constructor({ documents, cipher, trust, now }: RepositoryConsentsOptions) {
    this.trust = trust
    this.#stored = new StoredConsents(
      openDocument(documents, 'repository-consents.sealed', { cipher, ...consentsFormat }),
      now,
    )
  }

  /** The newest first. */
  list(): Promise<RepositoryConsent[]> {
    return this.#stored.list()
  }

  async check(code: RepositoryCode): ReturnType<RepositoryGate['check']> {
    const id = consentId(code)
    if (this.trust === 'always') {
      const known = await this.list().catch(() => undefined)
      // A denial may be among the decisions that cannot be read.
      if (known === undefined) return { id, verdict: 'pending' }
      const isDenied = known.some((one) => one.id === id && one.decision === 'denied')
      return { id, verdict: isDenied ? 'denied' : 'trusted' }
    }
    const { decision } = await this.register(code).catch(pendingWhenUnreadable)
    if (decision !== 'pending') return { id, verdict: decision }
    return { id, verdict: this.trust === 'ask' || (await this.#hadHooks(code)) ? 'pending' : 'skipped' }
  }

  /** Whether other content with hooks was allowed: what somebody relies on is not left out in silence. */
  async #hadHooks({ repository, hooksHash }: RepositoryCode): Promise<boolean> {
    if (hooksHash === undefined) return false
    const known = await this.list().catch(() => [])
    return known.some(
      (consent) =>
        consent.repository === repository &&
        consent.decision === 'allowed' &&
        consent.items.some(({ kind }) => kind === 'hook'),
    )
  }

  /** The consent for this content; a new one is pending. */
  register(code: RepositoryCode): Promise<RepositoryConsent> {
    return this.#stored.register({ ...code, id: consentId(code), items: [...code.items] })
  }

  /** A Problem `not_found` for an unknown id. */
  decide(id: string, decision: RepositoryDecision): Promise<RepositoryConsent> {
    return this.#stored.decide(id, decision)
  }

  /** Forgets a decision; a Problem `not_found` for an unknown id. */
  revoke(id: string): Promise<RepositoryConsent> {
    return this.#stored.revoke(id)
  }
}

/** Decisions that cannot be read count as not made. */
function pendingWhenUnreadable(error: unknown): Pick<RepositoryConsent, 'decision'> {
  if (error instanceof Problem && error.code === 'conflict') return { decision: 'pending' }
  throw error
}

/** What of a repository is skipped because its files are invalid. */
export function repositoryIssues({ hooks, rules, agents }: RepositoryCode): string[] {
  return [...hooks.issues, ...rules.issues, ...agents.issues]
}

function consentId(code: RepositoryCode): string {
  return hash('sha256', `${code.repository}\0${code.hash}`).slice(0, 32)
}
