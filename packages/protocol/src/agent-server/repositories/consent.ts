import * as z from 'zod'
import { component, timestamp } from '../../core/schemas.ts'

/** One thing that a repository brings and that would run, or decides what runs. */
export const repositoryCodeItem = component('RepositoryCodeItem', {
  kind: z.enum(['hook', 'agent', 'mcp_server', 'command_rule', 'script']),
  path: z.string().meta({ description: 'The file, relative to the working directory.' }),
  name: z
    .string()
    .meta({ description: 'Of the agent, of the MCP server, of the event of the hook; what a rule decides.' }),
  command: z.string().nullable().meta({
    description:
      'What a hook runs or asks, how an MCP server is reached, the pattern of a rule, a script; cut when long.',
  }),
})
export type RepositoryCodeItem = z.output<typeof repositoryCodeItem>

/** What becomes of the hooks and agents of repositories without a decision. */
export const repositoryTrust = z.enum(['skip', 'ask', 'always'])
export type RepositoryTrust = z.output<typeof repositoryTrust>

export const repositoryConsent = component('RepositoryConsent', {
  id: z.string(),
  repository: z.string().meta({ description: 'The real path; of a git worktree that of its main worktree.' }),
  hash: z.string().meta({ description: 'SHA-256 of the content. Changed content needs another consent.' }),
  decision: z.enum(['pending', 'allowed', 'denied']),
  items: z.array(repositoryCodeItem),
  created_at: timestamp,
  decided_at: timestamp.nullable(),
})
export type RepositoryConsent = z.output<typeof repositoryConsent>

export const repositoryConsents = component('RepositoryConsents', {
  trust: repositoryTrust,
  items: z.array(repositoryConsent),
  issues: z
    .array(z.string())
    .optional()
    .meta({ description: 'Of an inspected directory: the files that are skipped because they are invalid.' }),
})
export type RepositoryConsents = z.output<typeof repositoryConsents>

/** In a create request: the decision for what the working directory brings now. */
export const repositoryDecision = z.enum(['allow', 'deny'])
export type RepositoryDecision = z.output<typeof repositoryDecision>

export const consentParams = z.object({ consent_id: z.string() })
export const decideRepositoryConsentRequest = component('DecideRepositoryConsentRequest', {
  decision: repositoryDecision,
})

/** What the log tells of a decision: the value of a state update of the key `repository_consent`. */
export const repositoryConsentState = z.object({
  id: z.string(),
  decision: z.enum(['pending', 'allowed', 'denied', 'skipped']),
  /** The conversation has hooks of the repository, or had them and waits because they have changed. */
  has_hooks: z.boolean().optional(),
})
export type RepositoryConsentState = z.output<typeof repositoryConsentState>
