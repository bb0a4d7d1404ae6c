import * as z from 'zod'
import { emptyAsUndefined, queryInteger, queryText } from '../../core/query.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { gitChange, gitCommit, gitDiff, gitProviderRepository } from './git.ts'

const directoryPath = z
  .string()
  .min(1)
  .meta({ description: 'Absolute path of a directory; the first slash may be missing.' })
const filePath = z
  .string()
  .min(1)
  .meta({ description: 'Absolute path of a file; the first slash may be missing.' })
/** The address may bring a path percent-encoded or with its slashes, and may have lost the first one. */
const pathParams = z.object({
  path: z
    .string()
    .min(1)
    .meta({ description: 'Absolute; slashes may be percent-encoded, the first may be missing.' }),
})
const refQuery = {
  ref: queryText.meta({
    description:
      'What is compared with: anything that names a commit. Without it, the upstream of the branch while there is work that is not pushed; else where the branch has left the default branch (of the remote, or the local main or master); else HEAD.',
  }),
}
const commitHash = z.string().regex(/^[0-9a-fA-F]{4,64}$/, 'A commit id has 4 to 64 hexadecimal digits')
const diffQuery = {
  ...refQuery,
  commit: emptyAsUndefined(commitHash).meta({
    description: 'What this commit did: its id, 4 to 64 hexadecimal digits. Not together with ref.',
  }),
}

const changesRoute = {
  summary: 'List the changed files of a repository',
  description:
    'By path; repositories in directories right below are included. Files that are neither tracked nor ignored are ADDED. Empty where there is no repository.',
  responses: {
    200: { description: 'The changes.', schema: z.array(gitChange) },
    400: { description: 'The ref names no commit, or git failed.' },
  },
} as const

const diffRoute = {
  summary: 'Get a file before and after',
  description:
    'Without the final line feed, CRLF as LF; empty where the file is missing, null on both sides without a repository.',
  responses: {
    200: { description: 'Both sides.', schema: gitDiff },
    400: { description: 'There is no such file on either side, it is larger than 1 MiB, or git failed.' },
  },
} as const

/** Reading repositories; nothing in them is written or run. */
export const gitRoutes = defineRoutes('git', {
  gitChanges: route.get('/api/git/changes', {
    ...changesRoute,
    query: z.object({ path: directoryPath, ...refQuery }),
  }),
  gitDiff: route.get('/api/git/diff', { ...diffRoute, query: z.object({ path: filePath, ...diffQuery }) }),
  gitChangesOf: route.get('/api/git/changes/{path*}', {
    ...changesRoute,
    params: pathParams,
    query: z.object(refQuery),
  }),
  gitDiffOf: route.get('/api/git/diff/{path*}', {
    ...diffRoute,
    params: pathParams,
    query: z.object(diffQuery),
  }),
  gitCommits: route.get('/api/git/commits', {
    summary: 'List the commits of a repository',
    query: z.object({
      path: directoryPath,
      limit: queryInteger(1, 200).default(50).meta({
        type: 'integer',
        minimum: 1,
        maximum: 200,
        default: 50,
        description: 'Most commits to list.',
      }),
    }),
    responses: {
      200: {
        description: 'The newest first; empty where there is none.',
        schema: component('GitCommitPage', {
          commits: z.array(gitCommit),
          has_more: z.boolean(),
        }),
      },
      400: { description: 'git failed.' },
    },
  }),
  gitCommitChanges: route.get('/api/git/commits/{sha}/changes', {
    summary: 'List the files that a commit changed',
    description: 'Of a merge: what it changed for its first parent.',
    params: z.object({ sha: commitHash.meta({ description: '4 to 64 hexadecimal digits.' }) }),
    query: z.object({ path: directoryPath }),
    responses: {
      200: { description: 'The changes.', schema: z.array(gitChange) },
      400: { description: 'There is no such commit, or git failed.' },
    },
  }),
  searchRepositories: route.get('/api/git/repositories/search', {
    summary: 'List the repositories of a Git host',
    description:
      'Those that the stored secret github_token (or GITHUB_TOKEN, GH_TOKEN, github) may read, the last pushed first.',
    query: z.object({
      provider: z.enum(['github', 'gitlab', 'bitbucket']).meta({ description: 'Only github has a list.' }),
      query: queryText.meta({ description: 'A part of the name, in any case.' }),
      limit: queryInteger(1, 100).default(100).meta({
        type: 'integer',
        minimum: 1,
        maximum: 100,
        default: 100,
        description: 'Most repositories to list.',
      }),
      page_id: queryText.meta({ description: 'The next_page_id of the page before.' }),
    }),
    responses: {
      200: {
        description: 'A page; `missing_token` without a stored token.',
        schema: component('GitProviderRepositoryPage', {
          items: z.array(gitProviderRepository),
          next_page_id: z.string().nullable(),
          missing_token: z.boolean(),
        }),
      },
      400: { description: 'The host has no list, or the page id is invalid.' },
      401: { description: 'GitHub refuses the token.' },
      502: { description: 'GitHub failed or cannot be reached.' },
      504: { description: 'GitHub did not answer within 15 seconds.' },
    },
  }),
})
