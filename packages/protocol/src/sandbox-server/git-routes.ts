import * as z from 'zod'
import { gitProviderRepository } from '../agent-server/git/git.ts'
import { pageLimitOf, pageQuery, queryText } from '../core/query.ts'
import { ok } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { component, pageOf } from '../core/schemas.ts'
import { userMarketplace } from './account.ts'
import { providerType } from './app-conversation.ts'
import { skillOffer } from './offer-routes.ts'

/** A repository that a stored token may read. */
const gitRepository = component('GitRepository', {
  ...gitProviderRepository.shape,
  git_provider: providerType,
  link_header: z.string().nullable().meta({ description: 'The header Link of the provider.' }),
  owner_type: z.enum(['user', 'organization']).nullable(),
})
export type GitRepository = z.infer<typeof gitRepository>

const gitBranch = component('GitBranch', {
  name: z.string(),
  commit_sha: z.string(),
  protected: z.boolean(),
  last_push_date: z.string().nullable(),
})
export type GitBranch = z.infer<typeof gitBranch>

const suggestedTask = component('SuggestedTask', {
  git_provider: providerType,
  task_type: z.enum(['MERGE_CONFLICTS', 'FAILING_CHECKS', 'UNRESOLVED_COMMENTS', 'OPEN_ISSUE', 'OPEN_PR']),
  repo: z.string(),
  issue_number: z.int(),
  title: z.string(),
})
export type SuggestedTask = z.infer<typeof suggestedTask>

const gitUser = component('GitUser', {
  id: z.string(),
  login: z.string(),
  avatar_url: z.string(),
  company: z.string().nullable(),
  name: z.string().nullable(),
  email: z.string().nullable(),
})
export type GitUser = z.infer<typeof gitUser>

const marketplacePreview = component('MarketplacePreview', {
  skills: z.array(skillOffer).meta({ description: 'Those of no plugin. `source` is `marketplace:NAME`.' }),
  plugins: z.array(
    component('PluginOffer', {
      name: z.string(),
      description: z.string().nullable(),
      source: z.string().meta({ description: 'That of the marketplace.' }),
      marketplace: z.string(),
    }),
  ),
  marketplace_skills: z
    .record(z.string(), z.array(z.string()))
    .meta({ description: 'Names of skills by marketplace, of each that was read.' }),
  errors: z.array(z.string()).meta({ description: '`NAME: reason`, of each that was not read.' }),
})
export type MarketplacePreview = z.infer<typeof marketplacePreview>

const sortOrder = z
  .enum(['stars-desc', 'stars-asc', 'forks-desc', 'forks-asc', 'updated-desc', 'updated-asc'])
  .meta({ id: 'RepositorySortOrder' })
export type RepositorySortOrder = z.infer<typeof sortOrder>

const failures = {
  400: { description: 'The provider has no such list, is not supported, or its host must not be asked.' },
  401: { description: 'The provider refuses the token.' },
  403: { description: 'There is no token of the provider, or it may not read that.' },
  429: { description: 'The limit of requests to the provider is reached.' },
  502: { description: 'The provider failed or cannot be reached.' },
  504: { description: 'The provider did not answer in time.' },
}
const providerQuery = pageQuery.extend({ provider: providerType })

/** What the stored tokens of Git providers may read there. */
export const gitProviderRoutes = defineRoutes(
  'git',
  {
    searchInstallations: route.get('/api/v1/git/installations/search', {
      summary: 'List the installations of GitHub apps, or the workspaces of Bitbucket, in pages',
      query: providerQuery,
      responses: {
        ...ok('One page of ids.', pageOf(z.string()).meta({ id: 'InstallationPage' })),
        ...failures,
      },
    }),
    searchGitRepositories: route.get('/api/v1/git/repositories/search', {
      summary: 'List or find the repositories of the user at a provider in pages',
      query: providerQuery.extend({
        query: queryText.meta({ description: 'A part of the name, or the address of a repository.' }),
        installation_id: queryText.meta({ description: 'Only those of this installation or workspace.' }),
        sort_order: sortOrder.optional().meta({ description: 'Of a search; not with an empty query.' }),
      }),
      responses: {
        ...ok('One page.', pageOf(gitRepository).meta({ id: 'GitRepositoryPage' })),
        ...failures,
      },
    }),
    searchBranches: route.get('/api/v1/git/branches/search', {
      summary: 'List or find the branches of a repository in pages',
      query: providerQuery.extend({
        limit: pageLimitOf(30),
        repository: z.string().max(1000).meta({ description: 'owner/name' }),
        query: z.string().max(1000).meta({ description: 'A part of the name; empty for all.' }),
      }),
      responses: {
        ...ok('One page.', pageOf(gitBranch).meta({ id: 'GitBranchPage' })),
        ...failures,
        404: { description: 'The provider has no such repository.' },
      },
    }),
    searchSuggestedTasks: route.get('/api/v1/git/suggested-tasks/search', {
      summary: 'List own pull requests that need work and assigned issues of all providers in pages',
      query: pageQuery.extend({ limit: pageLimitOf(30) }),
      responses: {
        ...ok('One page.', pageOf(suggestedTask).meta({ id: 'SuggestedTaskPage' })),
        ...failures,
      },
    }),
    gitInfo: route.get('/api/v1/users/git-info', {
      summary: 'Who the user is at the first provider that answers',
      responses: { ...ok('The user there.', gitUser), ...failures },
    }),
    previewMarketplaces: route.post('/api/v1/skills/marketplace-skills', {
      summary: 'List what marketplaces offer, before they are registered',
      audit: false,
      description:
        'Their repositories are read at GitHub, GitLab or Forgejo, with the stored token where there is one. Without a manifest the folders `skills` and `.skills` are listed by name.',
      body: z.array(userMarketplace).max(20),
      responses: ok('What was read, and why the others were not.', marketplacePreview),
    }),
  },
  { access: 'user' },
)
