import * as z from 'zod'
import { component } from '../../core/schemas.ts'

/** What happened to a file. `MOVED` is for clients that know it: a rename is a DELETED and an ADDED here. */
export const gitStatus = z.enum(['MOVED', 'ADDED', 'DELETED', 'UPDATED']).meta({ id: 'GitChangeStatus' })
export type GitStatus = z.infer<typeof gitStatus>

/** One changed file; `path` is relative to the directory that was asked about. */
export const gitChange = component('GitChange', { status: gitStatus, path: z.string() })
export type GitChange = z.infer<typeof gitChange>

/**
 * A file before and after; empty where it does not exist, null without a repository. Binary content, and a
 * longer text of a commit (1 MiB), is replaced by a sentence in brackets.
 */
export const gitDiff = component('GitDiff', {
  modified: z.string().nullable(),
  original: z.string().nullable(),
})
export type GitDiff = z.infer<typeof gitDiff>

/** `author` is a name; `timestamp` is when it was written, ISO 8601 with its offset. */
export const gitCommit = component('GitCommit', {
  sha: z.string(),
  short_sha: z.string(),
  subject: z.string(),
  author: z.string(),
  timestamp: z.string(),
})
export type GitCommit = z.infer<typeof gitCommit>

/** A repository of a Git host. */
export const gitProviderRepository = component('GitProviderRepository', {
  id: z.string(),
  full_name: z.string(),
  git_provider: z.string(),
  is_public: z.boolean(),
  stargazers_count: z.int().nullable(),
  pushed_at: z.string().nullable(),
  main_branch: z.string().nullable(),
})
export type GitProviderRepository = z.infer<typeof gitProviderRepository>
