import type { UserMarketplace } from '@slipway/protocol'
import type { Redactor } from '@slipway/shared/redaction'
import type { GitProviders } from '../accounts/git-providers.ts'
import { resolveRepository } from '../accounts/git-repository.ts'
import { repositoryAddress } from '../git/marketplace-preview.ts'
import { findRepository } from '../git/open-provider.ts'

export type ConversationMarketplace = Omit<UserMarketplace, 'scope'>

/**
 * The marketplaces of a user as an agent server fetches them: those at the host of a stored token with that
 * token, which `redactor` learns.
 */
export async function conversationMarketplaces(
  marketplaces: readonly UserMarketplace[],
  owner: string | null,
  deps: { readonly gitProviders: Pick<GitProviders, 'readTokens'>; readonly redactor: Redactor },
): Promise<ConversationMarketplace[]> {
  if (marketplaces.length === 0) return []
  const tokens = await deps.gitProviders.readTokens(owner)
  return marketplaces.map(({ scope: _, source, ...others }) => ({ ...others, source: fetchAddress(source) }))

  function fetchAddress(source: string): string {
    const found = source.includes('/') ? findRepository(repositoryAddress(source), tokens) : undefined
    const { token, ...access } = found?.access ?? {}
    if (found === undefined || token === undefined) return source
    const repository = resolveRepository(found.path, found.provider, { ...access, token })
    if (repository?.login === undefined) return source
    const { user, password } = repository.login
    deps.redactor.add(password)
    const url = new URL(repository.url)
    url.username = encodeURIComponent(user)
    url.password = encodeURIComponent(password.reveal().trim())
    return url.href
  }
}
