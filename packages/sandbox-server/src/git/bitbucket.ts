import type { GitRepository } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { type GitProvider, listOfOne, splitRepository, splitSortOrder } from './git-provider.ts'
import type { ProviderList } from './paged-list.ts'
import { acceptProblem, idText, type ProviderAnswer, type ProviderApi, textOrNull } from './provider-api.ts'

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
      read: ({ body }) => api.records(asRecord(body).values).map(toRepository),
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
    async findRepositories({ query, path, sortOrder = 'updated-desc' }) {
      if (path !== undefined) {
        const params = splitRepository(path)
        return [
          listOfOne(async () => {
            const { body } = await api.get('/repositories/{owner}/{name}', { params })
            return toRepository(asRecord(body))
          }),
        ]
      }
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
          api.records(asRecord(body).values).map(({ name, target }) => ({
            name: textOrNull(name) ?? '',
            commit_sha: textOrNull(asRecord(target).hash) ?? '',
            protected: false,
            last_push_date: textOrNull(asRecord(target).date),
          })),
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

function toRepository(item: Readonly<Record<string, unknown>>): GitRepository {
  return {
    id: idText(item.uuid),
    full_name: textOrNull(item.full_name) ?? '',
    git_provider: 'bitbucket',
    is_public: item.is_private === false,
    stargazers_count: null,
    link_header: null,
    pushed_at: textOrNull(item.updated_on),
    owner_type: 'organization',
    main_branch: textOrNull(asRecord(item.mainbranch).name),
  }
}
