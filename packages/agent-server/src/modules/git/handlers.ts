import type { Handlers } from '@slipway/http'
import type { gitRoutes } from '@slipway/protocol'
import type { GitReader } from './git-reader.ts'
import type { RepositorySearch } from './repository-search.ts'

export function gitHandlers({
  reader,
  repositories,
}: {
  readonly reader: GitReader
  readonly repositories: RepositorySearch
}): Handlers<typeof gitRoutes> {
  return {
    gitChanges: async ({ query, signal }) => ({ json: await reader.changes(query.path, query.ref, signal) }),
    async gitChangesOf({ params, query, signal }) {
      return { json: await reader.changes(params.path, query.ref, signal) }
    },
    gitDiff: async ({ query, signal }) => ({ json: await reader.diff(query.path, query, signal) }),
    gitDiffOf: async ({ params, query, signal }) => ({ json: await reader.diff(params.path, query, signal) }),
    async gitCommits({ query, signal }) {
      return { json: await reader.commits(query.path, query.limit, signal) }
    },
    async gitCommitChanges({ params, query, signal }) {
      return { json: await reader.commitChanges(query.path, params.sha, signal) }
    },
    async searchRepositories({ query, signal }) {
      return { json: await repositories.search(query, signal) }
    },
  }
}
