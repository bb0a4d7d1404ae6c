import type { GitProviders, GitToken } from '../accounts/git-providers.ts'
import { defaultProvider, isUrl } from '../accounts/git-repository.ts'

/** Of the secret with the provider's token that a start gives a conversation: no other secret has it. */
export const gitTokenDescription = 'Token of the provider of the repository'

/** The name of that secret, as programs of the provider read it. */
export function gitTokenVariable(provider: string): string {
  return `${provider.toUpperCase()}_TOKEN`
}

/** The owner's token for the provider of a conversation's repository. */
export async function findGitToken(
  { gitProviders }: { readonly gitProviders: Pick<GitProviders, 'getToken'> },
  owner: string | null,
  {
    selected_repository: repository,
    git_provider: provider,
  }: {
    readonly selected_repository?: string | null | undefined
    readonly git_provider?: string | null | undefined
  },
): Promise<GitToken | undefined> {
  if (provider) return await gitProviders.getToken(owner, provider)
  return repository && !isUrl(repository) ? await gitProviders.getToken(owner, defaultProvider) : undefined
}
