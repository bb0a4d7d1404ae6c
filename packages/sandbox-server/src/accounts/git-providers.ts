import { definedMembers, isRecord, ownMember } from '@slipway/shared/json'
import { Secret } from '@slipway/shared/redaction'
import type { JsonDocument } from '@slipway/storage'
import { type AccountDocuments, userDocument } from './user-documents.ts'

type GitProviderAccounts = Readonly<
  Record<string, { readonly token?: string | undefined; readonly host?: string | undefined }>
>

export interface GitToken {
  readonly token: Secret
  readonly host?: string
}

/** The tokens of each user for Git providers, by the provider's name. */
export class GitProviders {
  readonly #document: JsonDocument<GitProviderAccounts>

  constructor(deps: AccountDocuments) {
    this.#document = userDocument<GitProviderAccounts>(deps, 'providers', {
      empty: {},
      parse: (value) => (isRecord(value) ? (value as GitProviderAccounts) : {}), // written by this class alone
    })
  }

  async read(owner: string | null): Promise<GitProviderAccounts> {
    return await this.#document.read(owner ?? '')
  }

  /** By provider, in the order in which they were stored. */
  async readTokens(owner: string | null): Promise<ReadonlyMap<string, GitToken>> {
    return gitTokens(await this.read(owner))
  }

  async getToken(owner: string | null, provider: string): Promise<GitToken | undefined> {
    return (await this.readTokens(owner)).get(provider)
  }

  /** Merges into what is stored: an absent or empty token and an absent host stay as they are. */
  async update(owner: string | null, changes: GitProviderAccounts): Promise<void> {
    await this.#document.update((stored) => {
      const merged = Object.entries(changes).map(([name, { token, host }]) => [
        name,
        { ...ownMember(stored, name), ...definedMembers({ token: token || undefined, host }) },
      ])
      return { ...stored, ...Object.fromEntries(merged) }
    }, owner ?? '')
  }

  async removeAll(owner: string | null): Promise<void> {
    await this.#document.update(() => ({}), owner ?? '')
  }
}

export function gitTokens(accounts: GitProviderAccounts): ReadonlyMap<string, GitToken> {
  return new Map(
    Object.entries(accounts).flatMap(([name, { token, host }]): [string, GitToken][] =>
      token ? [[name, { token: new Secret(token), ...(host === undefined ? {} : { host }) }]] : [],
    ),
  )
}
