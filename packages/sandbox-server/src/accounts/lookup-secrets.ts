import { ownMember } from '@slipway/shared/json'
import { findSecretTexts } from '@slipway/shared/redaction'
import type { SandboxRows } from '@slipway/storage/control-plane'
import type { Accounts } from './accounts.ts'

const tokenSuffix = '_token'

/** The name under which a sandbox looks up the token of a Git provider. */
export function providerTokenName(provider: string): string {
  return provider + tokenSuffix
}

/**
 * The secrets of users that sandboxes look up: stored ones, and the tokens of Git providers. A sandbox reads
 * those alone
 * whose names it was granted: all that its owner has when the owner starts it, and those of the conversations
 * in it.
 */
export class LookupSecrets {
  readonly #accounts: SecretAccounts
  readonly #grants: Pick<SandboxRows, 'grantSecrets' | 'listGrantedSecrets'>

  constructor(accounts: SecretAccounts, grants: Pick<SandboxRows, 'grantSecrets' | 'listGrantedSecrets'>) {
    this.#accounts = accounts
    this.#grants = grants
  }

  /** Grants a sandbox all that its owner has now; later ones stay unknown to it. */
  async grantAll({ id, owner }: SandboxOwner): Promise<void> {
    const names = (await this.#listOwned(owner)).map(({ name }) => name)
    if (names.length > 0) await this.#grants.grantSecrets(id, names)
  }

  /** Names and descriptions of what a sandbox may read. */
  async list({ id, owner }: SandboxOwner) {
    const granted = new Set(await this.#grants.listGrantedSecrets(id))
    return (await this.#listOwned(owner)).filter(({ name }) => granted.has(name))
  }

  /** Undefined for a secret that does not exist or was not granted. A stored secret precedes a token. */
  async getValue({ id, owner }: SandboxOwner, name: string): Promise<string | undefined> {
    if (!(await this.#grants.listGrantedSecrets(id)).includes(name)) return undefined
    const provider = name.endsWith(tokenSuffix) ? name.slice(0, -tokenSuffix.length) : ''
    const { userSecrets, gitProviders } = this.#accounts
    const stored = await userSecrets.getValue(name, owner ?? '')
    return stored ?? ownMember(await gitProviders.read(owner), provider)?.token
  }

  /** All texts of an owner that are secrets, also keys of models: nothing that is shown may have them. */
  async listTexts(owner: string | null): Promise<readonly string[]> {
    const { userSecrets, gitProviders, userSettings, llmProfiles } = this.#accounts
    const found = await Promise.all([
      userSecrets.readAll(owner ?? ''),
      gitProviders.read(owner),
      userSettings.read(owner),
      llmProfiles.readAll(owner),
    ])
    const [secrets, ...others] = found
    const named = findSecretTexts(JSON.parse(JSON.stringify(others))).filter(({ isNamed }) => isNamed)
    return [...Object.values(secrets).map(({ value }) => value), ...named.map(({ text }) => text)]
  }

  async #listOwned(owner: string | null) {
    const { userSecrets, gitProviders } = this.#accounts
    const tokens = Object.entries(await gitProviders.read(owner)).filter(([, { token }]) => token)
    const named = tokens.map(([name]) => ({
      name: providerTokenName(name),
      description: `Token of ${name}`,
    }))
    return [...(await userSecrets.list(owner ?? '')), ...named]
  }
}

type SecretAccounts = Pick<Accounts, 'userSecrets' | 'gitProviders' | 'userSettings' | 'llmProfiles'>

interface SandboxOwner {
  readonly id: string
  readonly owner: string | null
}
