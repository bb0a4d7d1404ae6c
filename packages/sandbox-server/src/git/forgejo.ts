import type { GitBranch, GitRepository } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { filterList, type GitProvider, listOfOne, splitRepository, splitSortOrder } from './git-provider.ts'
import { idText, integerOrNull, type ProviderApi, textOrNull } from './provider-api.ts'

/** Forgejo and Gitea. */
export function forgejoProvider(api: ProviderApi): GitProvider {
  return {
    async user() {
      const body = asRecord((await api.get('/user')).body)
      return {
        id: idText(body.id),
        login: textOrNull(body.login) ?? textOrNull(body.username) ?? '',
        avatar_url: textOrNull(body.avatar_url) ?? '',
        company: null,
        name: textOrNull(body.full_name),
        email: textOrNull(body.email),
      }
    },
    repositories: async () => [
      api.list('/user/repos', {
        size: 'limit',
        read: ({ body, link }) => api.records(body).map((item) => toRepository(item, link)),
      }),
    ],
    async findRepositories({ query, path, sortOrder = 'stars-desc' }) {
      if (path !== undefined) {
        const params = splitRepository(path)
        return [
          listOfOne(async () => {
            const { body } = await api.get('/repos/{owner}/{name}', { params })
            return toRepository(asRecord(body), null)
          }),
        ]
      }
      const [sort, order] = splitSortOrder(sortOrder)
      return [
        api.list('/repos/search', {
          size: 'limit',
          query: { q: query, sort, order },
          read: ({ body }) => api.records(asRecord(body).data).map((item) => toRepository(item, null)),
        }),
      ]
    },
    branches(repository, query) {
      const list = api.list('/repos/{owner}/{name}/branches', {
        size: 'limit',
        params: splitRepository(repository),
        read: ({ body }) => api.records(body).map(toBranch),
      })
      // Its interface has no search for branches.
      return filterList(list, ({ name }) => name.toLowerCase().includes(query.toLowerCase()))
    },
  }
}

function toBranch(branch: Readonly<Record<string, unknown>>): GitBranch {
  const commit = asRecord(branch.commit)
  return {
    name: textOrNull(branch.name) ?? '',
    commit_sha: textOrNull(commit.id) ?? '',
    protected: branch.protected === true,
    last_push_date: textOrNull(commit.timestamp),
  }
}

/** It does not say what kind of owner a repository has. */
function toRepository(item: Readonly<Record<string, unknown>>, link: string | null): GitRepository {
  return {
    id: idText(item.id),
    full_name: textOrNull(item.full_name) ?? '',
    git_provider: 'forgejo',
    is_public: item.private === false,
    stargazers_count: integerOrNull(item.stars_count),
    link_header: link,
    pushed_at: textOrNull(item.updated_at),
    owner_type: null,
    main_branch: textOrNull(item.default_branch),
  }
}
