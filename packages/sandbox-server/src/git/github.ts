import type { GitBranch, GitRepository, SuggestedTask } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { type GitProvider, splitRepository, splitSortOrder, toBranch, toRepository } from './git-provider.ts'
import type { ProviderList } from './paged-list.ts'
import {
  acceptProblem,
  idText,
  integerOrNull,
  issuesPerPage,
  type ProviderApi,
  textOrNull,
} from './provider-api.ts'
import { githubFiles } from './repository-files.ts'

type Item = Readonly<Record<string, unknown>>

/** Owners of one search: each is a part of its address. */
const maxOwners = 20
/** Repositories of an organisation whose own name matches a search. */
const maxOfOrganization = 2

const branchQuery = `query ($owner: String!, $name: String!, $text: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    refs(refPrefix: "refs/heads/", query: $text, first: 100, after: $after,
      orderBy: {field: ALPHABETICAL, direction: ASC}) {
      pageInfo { hasNextPage endCursor }
      nodes { name refUpdateRule { pattern } target { oid ... on Commit { committedDate } } }
    }
  }
}`

const pullRequestQuery = `query ($after: String) {
  viewer {
    pullRequests(first: 50, after: $after, states: OPEN, orderBy: {field: UPDATED_AT, direction: DESC}) {
      pageInfo { hasNextPage endCursor }
      nodes {
        number title mergeable
        repository { nameWithOwner }
        commits(last: 1) { nodes { commit { statusCheckRollup { state } } } }
        reviews(first: 1, states: [CHANGES_REQUESTED, COMMENTED]) { totalCount }
      }
    }
  }
}`

export function githubProvider(api: ProviderApi): GitProvider {
  const repositoryList = (
    path: string,
    query: Readonly<Record<string, string>>,
    params: Readonly<Record<string, string>> = {},
    member?: string,
  ) =>
    api.list(path, {
      params,
      query,
      read: ({ body, link }) =>
        api
          .records(member === undefined ? body : asRecord(body)[member])
          .map((one) => readRepository(one, member === 'items' ? null : link)),
    })
  const login = async () => textOrNull(asRecord((await api.get('/user')).body).login) ?? ''
  return {
    files: githubFiles(api),
    async user() {
      const body = asRecord((await api.get('/user')).body)
      return {
        id: idText(body.id),
        login: textOrNull(body.login) ?? '',
        avatar_url: textOrNull(body.avatar_url) ?? '',
        company: textOrNull(body.company),
        name: textOrNull(body.name),
        email: textOrNull(body.email) ?? (await primaryEmail(api)),
      }
    },
    installations: () =>
      api.list('/user/installations', {
        read: ({ body }) => api.records(asRecord(body).installations).map(({ id }) => idText(id)),
      }),
    async repositories(installation) {
      if (installation === undefined) return [repositoryList('/user/repos', { sort: 'pushed' })]
      const path = '/user/installations/{installation}/repositories'
      return [repositoryList(path, {}, { installation }, 'repositories')]
    },
    async getRepository(path) {
      const { body } = await api.get('/repos/{owner}/{name}', { params: splitRepository(path) })
      return readRepository(asRecord(body), null)
    },
    async searchRepositories({ query, sortOrder = 'stars-desc' }) {
      const [sort, order] = splitSortOrder(sortOrder)
      const search = (q: string) => repositoryList('/search/repositories', { q, sort, order }, {}, 'items')
      const [org = '', ...name] = query.split('/')
      if (name.length > 0) return [search(`org:${org} in:name ${name.join('/')}`)]
      const organizations = await listOrganizations(api)
      const owners = [`user:${await login()}`, ...organizations.map((one) => `org:${one}`)]
      const chunks = Array.from({ length: Math.ceil(owners.length / maxOwners) }, (_, at) =>
        owners.slice(at * maxOwners, (at + 1) * maxOwners),
      )
      const named = organizations.filter((one) => isSimilar(one, query))
      return [
        ...chunks.map((chunk) => search(`${query} ${chunk.join(' ')}`)),
        ...named.map((one) => firstItems(search(`org:${one}`), maxOfOrganization)),
      ]
    },
    branches(repository, query) {
      const params = splitRepository(repository)
      if (query !== '') return searchBranches(api, params, query)
      return api.list('/repos/{owner}/{name}/branches', {
        params,
        read: ({ body }) => api.records(body).map(readBranch),
      })
    },
    tasks: () => [pullRequestTasks(api), issueTasks(api)],
  }
}

/** Null without the right to read addresses. */
async function primaryEmail(api: ProviderApi): Promise<string | null> {
  try {
    const emails = api.records((await api.get('/user/emails')).body)
    return textOrNull(emails.find(({ primary, verified }) => primary === true && verified === true)?.email)
  } catch (error) {
    acceptProblem(error, 'forbidden', 'not_found')
    return null
  }
}

/** Also for a token that may read repositories but no memberships: then those of the newest pushes. */
async function listOrganizations(api: ProviderApi): Promise<string[]> {
  const query = { per_page: 100 }
  try {
    const { body } = await api.get('/user/orgs', { query })
    return api.records(body).map(({ login }) => textOrNull(login) ?? '')
  } catch (error) {
    acceptProblem(error, 'forbidden')
    const { body } = await api.get('/user/repos', { query: { ...query, sort: 'pushed' } })
    const owners = api.records(body).map(({ owner }) => asRecord(owner))
    const logins = owners
      .filter(({ type }) => type === 'Organization')
      .map(({ login }) => textOrNull(login) ?? '')
    return [...new Set(logins)]
  }
}

function isSimilar(organization: string, query: string): boolean {
  const [a = '', b = ''] = [organization, query].map((text) => text.toLowerCase().replace(/[-_ ]/g, ''))
  return a.includes(b) || b.includes(a)
}

function firstItems<T>(list: ProviderList<T>, count: number): ProviderList<T> {
  return async () => ({ items: (await list(undefined)).items.slice(0, count), next: undefined })
}

function searchBranches(
  api: ProviderApi,
  { owner, name }: { readonly owner: string; readonly name: string },
  text: string,
): ProviderList<GitBranch> {
  return async (after) => {
    const data = await api.graphql(branchQuery, { owner, name, text, after })
    const refs = asRecord(asRecord(data.repository).refs)
    const items = api.records(refs.nodes).map(({ name, target, refUpdateRule }) => {
      const { oid, committedDate } = asRecord(target)
      const isProtected = refUpdateRule != null
      return toBranch({ name, commit_sha: oid, protected: isProtected, last_push_date: committedDate })
    })
    return { items, next: nextCursor(refs) }
  }
}

function pullRequestTasks(api: ProviderApi): ProviderList<SuggestedTask> {
  return async (after) => {
    const data = await api.graphql(pullRequestQuery, { after })
    const found = asRecord(asRecord(data.viewer).pullRequests)
    const items = api.records(found.nodes).flatMap((pull): SuggestedTask[] => {
      const task_type = pullRequestTask(api, pull)
      const repo = textOrNull(asRecord(pull.repository).nameWithOwner) ?? ''
      return task_type === undefined ? [] : [toTask(task_type, repo, pull)]
    })
    return { items, next: nextCursor(found) }
  }
}

/** Undefined for one that needs nothing. */
function pullRequestTask(api: ProviderApi, pull: Readonly<Record<string, unknown>>) {
  const [last] = api.records(asRecord(pull.commits).nodes)
  const { state } = asRecord(asRecord(last?.commit).statusCheckRollup)
  if (pull.mergeable === 'CONFLICTING') return 'MERGE_CONFLICTS'
  if (state === 'FAILURE') return 'FAILING_CHECKS'
  return Number(asRecord(pull.reviews).totalCount) > 0 ? 'UNRESOLVED_COMMENTS' : undefined
}

function issueTasks(api: ProviderApi): ProviderList<SuggestedTask> {
  return api.list('/issues', {
    perPage: issuesPerPage,
    query: { filter: 'assigned', state: 'open', sort: 'updated' },
    read: ({ body }) =>
      api
        .records(body)
        // The provider lists pull requests as issues too.
        .filter((issue) => issue.pull_request === undefined)
        .map((issue) => toTask('OPEN_ISSUE', textOrNull(asRecord(issue.repository).full_name) ?? '', issue)),
  })
}

function nextCursor({ pageInfo }: Readonly<Record<string, unknown>>): string | undefined {
  const { hasNextPage, endCursor } = asRecord(pageInfo)
  return hasNextPage === true ? (textOrNull(endCursor) ?? undefined) : undefined
}

function toTask(
  task_type: SuggestedTask['task_type'],
  repo: string,
  { number, title }: Readonly<Record<string, unknown>>,
): SuggestedTask {
  const issue_number = integerOrNull(number) ?? 0
  return { git_provider: 'github', task_type, repo, issue_number, title: textOrNull(title) ?? '' }
}

function readBranch({ name, commit: sent, protected: isProtected }: Item): GitBranch {
  const { sha, commit } = asRecord(sent)
  const { date } = asRecord(asRecord(commit).committer)
  return toBranch({ name, commit_sha: sha, protected: isProtected === true, last_push_date: date })
}

function readRepository(item: Item, link: string | null): GitRepository {
  return toRepository({
    ...{ id: item.id, full_name: item.full_name, git_provider: 'github' },
    ...{ is_public: item.private === false, stargazers_count: item.stargazers_count, link_header: link },
    ...{ pushed_at: item.pushed_at, main_branch: item.default_branch },
    owner_type: asRecord(item.owner).type === 'Organization' ? 'organization' : 'user',
  })
}
