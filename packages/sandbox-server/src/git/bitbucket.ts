import type { GitRepository } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { type GitProvider, splitRepository, splitSortOrder, toBranch, toRepository } from './git-provider.ts'
import type { ProviderList } from './paged-list.ts'
import { acceptProblem, type ProviderAnswer, type ProviderApi, textOrNull } from './provider-api.ts'

const paging = {
  size: 'pagelen',
  hasNext: ({ body }: ProviderAnswer) => asRecord(body).next !== undefined,
} as const
/** Workspaces whose repositories are listed without a choice of one. */
const maxWorkspaces = 1_000

/** Bitbucket Cloud. */
export function bitbucketProvider(api: ProviderApi): GitProvider {
  const workspaces = api.list('/user/workspaces', {
    ...paging,
    read: ({ body }) =>
      api.records(asRecord(body).values).map(({ workspace }) => textOrNull(asRecord(workspace).slug) ?? ''),
  })
  const repositoryList = (workspace: string, query: Readonly<Record<string, string>>) =>
    api.list('/repositories/{workspace}', {
      ...paging,
      params: { workspace },
      query,
      read: ({ body }) => api.records(asRecord(body).values).map(readRepository),
    })
  const everywhere = async (query: Readonly<Record<string, string>>) =>
    (await readAll(workspaces, maxWorkspaces)).map((workspace) => repositoryList(workspace, query))
  const sort = '-updated_on'
  return {
    async user() {
      const body = asRecord((await api.get('/user')).body)
      return {
        id: textOrNull(body.account_id) ?? '',
        login: textOrNull(body.username) ?? '',
        avatar_url: textOrNull(asRecord(asRecord(body.links).avatar).href) ?? '',
        company: null,
        name: textOrNull(body.display_name),
        email: await primaryEmail(api),
      }
    },
    installations: () => workspaces,
    repositories: async (workspace) =>
      workspace === undefined ? await everywhere({ sort }) : [repositoryList(workspace, { sort })],
    async getRepository(path) {
      const { body } = await api.get('/repositories/{owner}/{name}', { params: splitRepository(path) })
      return readRepository(asRecord(body))
    },
    async searchRepositories({ query, sortOrder = 'updated-desc' }) {
      // Bitbucket has no stars, and no order by forks.
      const [, order] = splitSortOrder(sortOrder)
      const found = { sort: order === 'asc' ? 'updated_on' : sort }
      const [workspace = '', ...name] = query.split('/')
      if (name.length > 0) return [repositoryList(workspace, { ...found, q: containsName(name.join('/')) })]
      return await everywhere({ ...found, q: containsName(query) })
    },
    branches: (repository, query) =>
      api.list('/repositories/{owner}/{name}/refs/branches', {
        ...paging,
        params: splitRepository(repository),
        query: { sort: '-target.date', q: query === '' ? undefined : containsName(query) },
        read: ({ body }) =>
          api.records(asRecord(body).values).map(({ name, target }) => {
            const { hash, date } = asRecord(target)
            return toBranch({ name, commit_sha: hash, protected: false, last_push_date: date })
          }),
      }),
  }
}

function containsName(text: string): string {
  return `name ~ "${text.replace(/["\\]/g, '\\$&')}"`
}

async function readAll<T>(list: ProviderList<T>, max: number): Promise<T[]> {
  const items: T[] = []
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
    const page = await list(cursor)
    items.push(...page.items)
    cursor = items.length < max ? page.next : undefined
  }
  return items
}

/** Null without the right to read addresses. */
async function primaryEmail(api: ProviderApi): Promise<string | null> {
  try {
    const emails = api.records(asRecord((await api.get('/user/emails')).body).values)
    const primary = emails.find((one) => one.is_primary === true && one.is_confirmed === true)
    return textOrNull(primary?.email)
  } catch (error) {
    acceptProblem(error, 'forbidden', 'not_found')
    return null
  }
}

function readRepository(item: Readonly<Record<string, unknown>>): GitRepository {
  return toRepository({
    ...{ id: item.uuid, full_name: item.full_name, git_provider: 'bitbucket' },
    ...{ is_public: item.is_private === false, stargazers_count: null, link_header: null },
    ...{ pushed_at: item.updated_on, main_branch: asRecord(item.mainbranch).name },
    owner_type: 'organization',
  })
}
