import type { GitBranch, GitRepository, SuggestedTask } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { type GitProvider, splitSortOrder, toBranch, toRepository } from './git-provider.ts'
import type { ProviderList } from './paged-list.ts'
import { idText, integerOrNull, issuesPerPage, type ProviderApi, textOrNull } from './provider-api.ts'
import { gitlabFiles } from './repository-files.ts'

type Item = Readonly<Record<string, unknown>>

const mergeRequestQuery = `query ($after: String) {
  currentUser {
    authoredMergeRequests(state: opened, sort: UPDATED_DESC, first: 100, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes {
        iid title conflicts resolvableDiscussionsCount resolvedDiscussionsCount
        project { fullPath }
        headPipeline { status }
      }
    }
  }
}`

export function gitlabProvider(api: ProviderApi): GitProvider {
  const projects = (query: Readonly<Record<string, string>>) =>
    api.list('/projects', {
      query: { membership: 'true', ...query },
      read: ({ body, link }) => api.records(body).map((project) => readRepository(project, link)),
    })
  return {
    files: gitlabFiles(api),
    async user() {
      const body = asRecord((await api.get('/user')).body)
      return {
        id: idText(body.id),
        login: textOrNull(body.username) ?? '',
        avatar_url: textOrNull(body.avatar_url) ?? '',
        company: textOrNull(body.organization),
        name: textOrNull(body.name),
        email: textOrNull(body.email),
      }
    },
    repositories: async () => [projects({ order_by: 'last_activity_at', sort: 'desc' })],
    async getRepository(path) {
      return readRepository(asRecord((await api.get('/projects/{path}', { params: { path } })).body), null)
    },
    async searchRepositories({ query, sortOrder = 'updated-desc' }) {
      const [by, sort] = splitSortOrder(sortOrder)
      // GitLab has no order by forks.
      const order_by = by === 'stars' ? 'star_count' : 'last_activity_at'
      return [projects({ search: query, search_namespaces: 'true', order_by, sort })]
    },
    branches: (path, search) =>
      api.list('/projects/{path}/repository/branches', {
        params: { path },
        query: { search: search === '' ? undefined : search },
        read: ({ body }) => api.records(body).map(readBranch),
      }),
    tasks: () => [mergeRequestTasks(api), issueTasks(api)],
  }
}

function mergeRequestTasks(api: ProviderApi): ProviderList<SuggestedTask> {
  return async (after) => {
    const data = await api.graphql(mergeRequestQuery, { after })
    const found = asRecord(asRecord(data.currentUser).authoredMergeRequests)
    const items = api.records(found.nodes).flatMap((request): SuggestedTask[] => {
      const task_type = mergeRequestTask(request)
      const repo = textOrNull(asRecord(request.project).fullPath) ?? ''
      return task_type === undefined ? [] : [toTask(task_type, repo, request)]
    })
    const { hasNextPage, endCursor } = asRecord(found.pageInfo)
    return { items, next: hasNextPage === true ? (textOrNull(endCursor) ?? undefined) : undefined }
  }
}

/** Undefined for one that needs nothing. */
function mergeRequestTask(request: Readonly<Record<string, unknown>>) {
  const { conflicts, headPipeline, resolvableDiscussionsCount, resolvedDiscussionsCount } = request
  if (conflicts === true) return 'MERGE_CONFLICTS'
  if (asRecord(headPipeline).status === 'FAILED') return 'FAILING_CHECKS'
  const open = Number(resolvableDiscussionsCount ?? 0) - Number(resolvedDiscussionsCount ?? 0)
  return open > 0 ? 'UNRESOLVED_COMMENTS' : undefined
}

function issueTasks(api: ProviderApi): ProviderList<SuggestedTask> {
  return api.list('/issues', {
    perPage: issuesPerPage,
    query: { scope: 'assigned_to_me', state: 'opened' },
    read: ({ body }) =>
      api.records(body).map((issue) => {
        const [repo = ''] = (textOrNull(asRecord(issue.references).full) ?? '').split('#')
        return toTask('OPEN_ISSUE', repo.trim(), issue)
      }),
  })
}

/** Its GraphQL interface has the number as a text. */
function toTask(
  task_type: SuggestedTask['task_type'],
  repo: string,
  { iid, title }: Readonly<Record<string, unknown>>,
): SuggestedTask {
  const issue_number = integerOrNull(Number(iid)) ?? 0
  return { git_provider: 'gitlab', task_type, repo, issue_number, title: textOrNull(title) ?? '' }
}

function readBranch({ name, commit: sent, protected: isProtected }: Item): GitBranch {
  const { id, committed_date } = asRecord(sent)
  return toBranch({ name, commit_sha: id, protected: isProtected === true, last_push_date: committed_date })
}

function readRepository(project: Item, link: string | null): GitRepository {
  return toRepository({
    ...{ id: project.id, full_name: project.path_with_namespace, git_provider: 'gitlab' },
    ...{ is_public: project.visibility === 'public', stargazers_count: project.star_count },
    ...{ link_header: link, pushed_at: project.last_activity_at, main_branch: project.default_branch },
    owner_type: asRecord(project.namespace).kind === 'group' ? 'organization' : 'user',
  })
}
