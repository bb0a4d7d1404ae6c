import type { Handlers } from '@slipway/http'
import type { gitRoutes } from '@slipway/protocol'
import type { Git } from '../../git/git-reader.ts'

/** Repositories on the server's machine, for whoever may look. */
export function gitHandlers({ git }: { readonly git: Git }): Handlers<typeof gitRoutes> {
  return {
    async gitChanges({ query, signal }) {
      return { json: await git.changes(query.path, query.ref, signal) }
    },
    async gitChangesOf({ params, query, signal }) {
      return { json: await git.changes(params.path, query.ref, signal) }
    },
    async gitDiff({ query, signal }) {
      return { json: await git.diff(query.path, query, signal) }
    },
    async gitDiffOf({ params, query, signal }) {
      return { json: await git.diff(params.path, query, signal) }
    },
    async gitCommits({ query, signal }) {
      return { json: await git.commits(query.path, query.limit, signal) }
    },
    async gitCommitChanges({ params, query, signal }) {
      return { json: await git.commitChanges(query.path, params.sha, signal) }
    },
  }
}
