import type { Handlers } from '@slipway/http'
import { type GitUser, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { GitProviders, GitToken } from '../accounts/git-providers.ts'
import type { Provider } from '../accounts/git-repository.ts'
import { getCaller } from '../auth/authenticator.ts'
import { type GitProvider, listOfOne } from './git-provider.ts'
import { previewMarketplaces, repositoryAddress } from './marketplace-preview.ts'
import {
  findRepository,
  isSupportedProvider,
  openProvider,
  type ProviderAccess,
  type ProviderFetches,
  providerFetches,
} from './open-provider.ts'
import { readPage } from './paged-list.ts'

interface GitHandlerDeps {
  readonly gitProviders: Pick<GitProviders, 'readTokens'>
  readonly clock: Clock
  readonly fetches?: ProviderFetches
}

interface CallerRequest {
  readonly caller: unknown
  readonly signal: AbortSignal
}

/** What the stored tokens of the caller may read at Git providers. */
export function gitHandlers(deps: GitHandlerDeps) {
  const { gitProviders, clock, fetches = providerFetches } = deps
  const readTokens = (request: CallerRequest) => gitProviders.readTokens(getCaller(request).owner)
  const requireTokens = async (request: CallerRequest) => {
    const tokens = await readTokens(request)
    if (tokens.size === 0) throw tokenRequired()
    return tokens
  }
  const open = (request: CallerRequest, provider: Provider, access: ProviderAccess) => {
    const { isAdmin, boundOrg } = getCaller(request)
    const fetch = isAdmin && boundOrg === null ? fetches.any : fetches.public
    return openProvider(provider, access, { fetch, clock, signal: request.signal })
  }
  const openOne = async (request: CallerRequest & { readonly query: { readonly provider: Provider } }) => {
    const { provider } = request.query
    const token = (await requireTokens(request)).get(provider)
    if (token === undefined) throw tokenRequired()
    return open(request, provider, token)
  }
  /** Those that the server cannot ask are left out. */
  const openAll = (request: CallerRequest, tokens: ReadonlyMap<string, GitToken>) =>
    [...tokens].flatMap(([name, token]) =>
      isSupportedProvider(name) ? [() => open(request, name, token)] : [],
    )
  return {
    async searchInstallations(request) {
      const { installations } = await openOne(request)
      if (installations === undefined) throw unsupported([request.query.provider], 'installations')
      return { json: await readPage([installations()], request.query) }
    },
    async searchGitRepositories(request) {
      const { query = '', installation_id, sort_order } = request.query
      const provider = await openOne(request)
      if (query === '' && sort_order !== undefined)
        throw new Problem('bad_request', 'sort_order is not supported when listing user repositories.')
      const path = provider.repositoryPath(query)
      const lists =
        query === ''
          ? await provider.repositories(installation_id)
          : path === undefined
            ? await provider.searchRepositories({ query, sortOrder: sort_order })
            : [listOfOne(() => provider.getRepository(path))]
      const { items, next_page_id } = await readPage(lists, request.query)
      if (items.some(({ id, full_name }) => id === '' || full_name === '')) throw provider.unexpected()
      // The lists of a search may name a repository twice.
      const unique = new Map(items.map((item) => [item.id, item]))
      return { json: { items: [...unique.values()], next_page_id } }
    },
    async searchBranches(request) {
      const { repository, query } = request.query
      const provider = await openOne(request)
      return { json: await readPage([provider.branches(repository, query)], request.query) }
    },
    async searchSuggestedTasks(request) {
      const tokens = await requireTokens(request)
      const lists = openAll(request, tokens).flatMap((open) => open().tasks?.() ?? [])
      if (lists.length === 0) throw unsupported([...tokens.keys()], 'suggested tasks')
      return { json: await readPage(lists, request.query) }
    },
    async gitInfo(request) {
      const tokens = await readTokens(request)
      if (tokens.size === 0) throw new Problem('forbidden', 'Git provider not connected')
      const providers = openAll(request, tokens)
      if (providers.length === 0) throw unsupported([...tokens.keys()], 'information about users')
      return { json: await firstUser(providers) }
    },
    async previewMarketplaces(request) {
      const tokens = await readTokens(request)
      const find = (source: string) =>
        requireFiles(source, tokens, (provider, access) => open(request, provider, access))
      return { json: await previewMarketplaces(request.body, find) }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/** The first that answers. Rejects with a failure, `unauthorized` only when all tokens are refused. */
async function firstUser(providers: readonly (() => { user(): Promise<GitUser> })[]): Promise<GitUser> {
  let failure = new Problem('unauthorized', 'Need valid provider token')
  for (const open of providers) {
    try {
      return await open().user()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.code !== 'unauthorized' && failure.code === 'unauthorized') failure = error
    }
  }
  throw failure
}

/** The files of the repository that a source names. A Problem `bad_request` for one at an unknown host. */
function requireFiles(
  source: string,
  tokens: ReadonlyMap<string, GitToken>,
  open: (provider: Provider, access: ProviderAccess) => GitProvider,
) {
  const found = findRepository(repositoryAddress(source), tokens)
  const files = found && open(found.provider, found.access).files
  if (files !== undefined) return { files, path: found?.path ?? '' }
  throw new Problem('bad_request', `Unknown Git host for ${source}; store a token together with its host`)
}

function tokenRequired(): Problem {
  return new Problem('forbidden', 'Git provider token required (such as GitHub).')
}

function unsupported(providers: readonly string[], what: string): Problem {
  return new Problem('bad_request', `Provider ${providers.join(', ')} doesn't support ${what}`)
}
