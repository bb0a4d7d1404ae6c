import type { RepositoryDecision } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { JsonDocument } from '@slipway/storage'
import { type AccountDocuments, userDocument } from './user-documents.ts'

type Decisions = Readonly<Record<string, RepositoryDecision>>

/** Decisions of a user; the oldest is forgotten. */
const maxDecisions = 1_000

/** The decisions of each user about the scripts of repositories, by repository and content. */
export class ScriptConsents {
  readonly #document: JsonDocument<Decisions>

  constructor(deps: AccountDocuments) {
    this.#document = userDocument<Decisions>(deps, 'script-consents', {
      empty: {},
      parse: (value) => (isRecord(value) ? (value as Decisions) : {}),
    })
  }

  async find(owner: string | null, id: string): Promise<RepositoryDecision | undefined> {
    return (await this.#document.read(owner ?? ''))[id]
  }

  async decide(owner: string | null, id: string, decision: RepositoryDecision): Promise<void> {
    await this.#document.update((stored) => {
      const others = Object.entries(stored).filter(([other]) => other !== id)
      return Object.fromEntries([...others.slice(1 - maxDecisions), [id, decision]])
    }, owner ?? '')
  }
}
