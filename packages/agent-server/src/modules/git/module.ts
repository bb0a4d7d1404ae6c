import { gitRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { GitReader } from './git-reader.ts'
import { gitHandlers } from './handlers.ts'
import { RepositorySearch } from './repository-search.ts'

export { emptyTree, resolveCommit } from './git-reader.ts'
export { GitRepository, hasRepository } from './repository.ts'

/** Changes and commits of repositories, and the search for them. */
export const gitModule = defineModule({
  name: 'git',
  routes: gitRoutes,
  open({ config, secrets, programs: { environment } }) {
    const handlers = gitHandlers({
      reader: new GitReader(environment),
      repositories: new RepositorySearch({ secrets, apiUrl: config.githubApiUrl, fetch }),
    })
    return { handlers, offer: handlers }
  },
})
