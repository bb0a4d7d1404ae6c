import * as z from 'zod'

/** What happened to a file. `MOVED` is for clients that know it: a rename is a DELETED and an ADDED here. */
export const gitStatus = z.enum(['MOVED', 'ADDED', 'DELETED', 'UPDATED']).meta({ id: 'GitChangeStatus' })
export type GitStatus = z.infer<typeof gitStatus>

/** One changed file; `path` is relative to the directory that was asked about. */
export const gitChange = z.object({ status: gitStatus, path: z.string() }).meta({ id: 'GitChange' })
export type GitChange = z.infer<typeof gitChange>

/**
 * A file before and after; null where it is not there. For bytes that are no text, and for more than 1 MiB, a sentence in
 * brackets stands in its place.
 */
export const gitDiff = z
  .object({ modified: z.string().nullable(), original: z.string().nullable() })
  .meta({ id: 'GitDiff' })
export type GitDiff = z.infer<typeof gitDiff>

/** `author` is a name; `timestamp` is when it was written, ISO 8601 with its offset. */
export const gitCommit = z
  .object({
    sha: z.string(),
    short_sha: z.string(),
    subject: z.string(),
    author: z.string(),
    timestamp: z.string(),
  })
  .meta({ id: 'GitCommit' })
export type GitCommit = z.infer<typeof gitCommit>

/** The newest first. */
export const gitCommitPage = z
  .object({ commits: z.array(gitCommit), has_more: z.boolean() })
  .meta({ id: 'GitCommitPage' })
