import type { GitBranch, GitRepository } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import {
  filterList,
  type GitProvider,
  splitRepository,
  splitSortOrder,
  toBranch,
  toRepository,
} from './git-provider.ts'
import { idText, type ProviderApi, textOrNull } from './provider-api.ts'
import { githubFiles } from './repository-files.ts'

type Item = Readonly<Record<string, unknown>>

/** Forgejo and Gitea. */
export function forgejoProvider(api: ProviderApi): GitProvider {
  return {
    files: githubFiles(api),
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
        read: ({ body, link }) => api.records(body).map((item) => readRepository(item, link)),
      }),
    ],
    async getRepository(path) {
      const { body } = await api.get('/repos/{owner}/{name}', { params: splitRepository(path) })
      return readRepository(asRecord(body), null)
    },
    async searchRepositories({ query, sortOrder = 'stars-desc' }) {
      const [sort, order] = splitSortOrder(sortOrder)
      return [
        api.list('/repos/search', {
          size: 'limit',
          query: { q: query, sort, order },
          read: ({ body }) => api.records(asRecord(body).data).map((item) => readRepository(item, null)),
        }),
      ]
    },
    branches(repository, query) {
      const list = api.list('/repos/{owner}/{name}/branches', {
        size: 'limit',
        params: splitRepository(repository),
        read: ({ body }) => api.records(body).map(readBranch),
      })
      // Its interface has no search for branches.
      return filterList(list, ({ name }) => name.toLowerCase().includes(query.toLowerCase()))
    },
  }
}

function readBranch({ name, commit: sent, protected: isProtected }: Item): GitBranch {
  const { id, timestamp } = asRecord(sent)
  return toBranch({ name, commit_sha: id, protected: isProtected === true, last_push_date: timestamp })
}

/** It does not say what kind of owner a repository has. */
function readRepository(item: Item, link: string | null): GitRepository {
  return toRepository({
    ...{ id: item.id, full_name: item.full_name, git_provider: 'forgejo', owner_type: null },
    ...{ is_public: item.private === false, stargazers_count: item.stars_count, link_header: link },
    ...{ pushed_at: item.updated_at, main_branch: item.default_branch },
  })
}
