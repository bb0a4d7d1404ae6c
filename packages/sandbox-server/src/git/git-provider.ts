import {
  type GitBranch,
  type GitRepository,
  type GitUser,
  invalidInput,
  type RepositorySortOrder,
  type SuggestedTask,
} from '@slipway/protocol'
import type { ProviderList } from './paged-list.ts'
import { acceptProblem, idText, integerOrNull, textOrNull } from './provider-api.ts'

export interface RepositorySearch {
  readonly query: string
  /** The best first, unless given. */
  readonly sortOrder: RepositorySortOrder | undefined
}

/** The files of repositories at a provider, at a branch, tag or commit. */
export interface RepositoryFiles {
  /** Undefined for a file that does not exist. */
  read(repository: string, path: string, ref: string | undefined): Promise<string | undefined>
  /** The paths below a folder; none where it does not exist. */
  list(repository: string, folder: string, ref: string | undefined): Promise<readonly string[]>
}

/** What a user may read at one Git provider. Calls and lists reject with Problems. */
export interface GitProvider {
  user(): Promise<GitUser>
  /** Ids of installations or workspaces, where there are such. */
  installations?(): ProviderList<string>
  /** Those of the user, the newest pushes first. */
  repositories(installation: string | undefined): Promise<readonly ProviderList<GitRepository>[]>
  searchRepositories(search: RepositorySearch): Promise<readonly ProviderList<GitRepository>[]>
  /** `owner/name`. */
  getRepository(path: string): Promise<GitRepository>
  /** Those whose name contains a text; all for an empty one. */
  branches(repository: string, query: string): ProviderList<GitBranch>
  /** Where files are read without a clone. */
  readonly files?: RepositoryFiles
  /** Own pull requests that need work and assigned issues, where the provider is asked for such. */
  tasks?(): readonly ProviderList<SuggestedTask>[]
}

type Sent<T> = { readonly [Name in keyof T]: T[Name] extends boolean ? T[Name] : unknown }

/** A repository of what a provider sent for its members. */
export function toRepository(
  sent: Sent<Omit<GitRepository, 'git_provider' | 'owner_type'>> &
    Pick<GitRepository, 'git_provider' | 'owner_type'>,
): GitRepository {
  return {
    ...sent,
    id: idText(sent.id),
    full_name: textOrNull(sent.full_name) ?? '',
    stargazers_count: integerOrNull(sent.stargazers_count),
    link_header: textOrNull(sent.link_header),
    pushed_at: textOrNull(sent.pushed_at),
    main_branch: textOrNull(sent.main_branch),
  }
}

/** A branch of what a provider sent for its members. */
export function toBranch(sent: Sent<GitBranch>): GitBranch {
  return {
    name: textOrNull(sent.name) ?? '',
    commit_sha: textOrNull(sent.commit_sha) ?? '',
    protected: sent.protected,
    last_push_date: textOrNull(sent.last_push_date),
  }
}

/** The last two parts of `owner/name`. A Problem `invalid` for another text. */
export function splitRepository(repository: string): { readonly owner: string; readonly name: string } {
  const [name = '', owner = ''] = repository.split('/').reverse()
  if (name !== '' && owner !== '') return { owner, name }
  throw invalidInput(['query', 'repository'], 'Should be owner/name')
}

/** A list of one item, or none where the provider has no such thing. */
export function listOfOne<T>(find: () => Promise<T>): ProviderList<T> {
  return async () => {
    try {
      return { items: [await find()], next: undefined }
    } catch (error) {
      acceptProblem(error, 'not_found')
      return { items: [], next: undefined }
    }
  }
}

/** Keeps those items of a list that match. */
export function filterList<T>(list: ProviderList<T>, matches: (item: T) => boolean): ProviderList<T> {
  return async (cursor) => {
    const { items, next } = await list(cursor)
    return { items: items.filter(matches), next }
  }
}

/** `stars` and `desc` of `stars-desc`. */
export function splitSortOrder(sortOrder: RepositorySortOrder): readonly [sort: string, order: string] {
  const [sort = '', order = ''] = sortOrder.split('-')
  return [sort, order]
}
