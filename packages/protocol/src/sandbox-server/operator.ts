import * as z from 'zod'
import { executionStatus } from '../agent-server/conversations/conversation.ts'
import { boundedText, component, strictComponent, timestamp } from '../core/schemas.ts'
import { sandboxId, sandboxStatus } from './sandbox.ts'

export const sandboxSortOrder = z
  .enum(['CREATED_AT', 'CREATED_AT_DESC', 'USED_AT', 'USED_AT_DESC', 'COST', 'COST_DESC'])
  .meta({ id: 'SandboxSortOrder' })

export const ownedConversationSortOrder = z
  .enum(['CREATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT', 'UPDATED_AT_DESC', 'COST', 'COST_DESC'])
  .meta({ id: 'OwnedConversationSortOrder' })

/** A conversation as administrators see it: none of its events. */
export const ownedConversation = component('OwnedConversation', {
  id: z.string(),
  title: z.string().nullable(),
  user_id: z.string().nullable(),
  user_name: z.string().nullable(),
  org_id: z.string().nullable(),
  sandbox_id: sandboxId,
  sandbox_status: sandboxStatus,
  execution_status: executionStatus.nullable().meta({ description: 'As it was reported last.' }),
  llm_model: z.string().nullable(),
  cost: z.number().meta({ description: 'In dollars.' }),
  created_at: timestamp,
  updated_at: timestamp,
})
export type OwnedConversation = z.infer<typeof ownedConversation>

export const changeSandboxesRequest = strictComponent('ChangeSandboxesRequest', {
  action: z.enum(['pause', 'delete']),
  ids: z.array(sandboxId).min(1).max(100),
})

/** What became of each sandbox, in the order of the ids. */
export const changeSandboxesResult = component('ChangeSandboxesResult', {
  results: z.array(
    z.object({
      id: z.string(),
      status: z.int().meta({ description: '200, or the status that the action on it alone would answer.' }),
      detail: z.string().nullable().meta({ description: 'Why not.' }),
    }),
  ),
})

/** What happened to a sandbox. */
export const sandboxEvent = component('SandboxEvent', {
  time: timestamp,
  kind: z.string().meta({
    description:
      'Asked for: create, pause, resume, restart, archive, delete, exec, logs. As it came: starting, running, paused, failed, missing, deleted.',
  }),
  actor: z.string().nullable().meta({ description: 'user:ID; null: the server itself.' }),
  detail: z.string().nullable().meta({ description: 'Why, or the command.' }),
})
export type SandboxEvent = z.infer<typeof sandboxEvent>

export const sandboxLog = component('SandboxLog', {
  sandbox_id: sandboxId,
  text: z.string().meta({ description: 'The end of what its agent server printed, without its secrets.' }),
  is_live: z.boolean().meta({ description: 'False for one that was deleted: its last output.' }),
  time: timestamp.meta({ description: 'When it was read.' }),
})

export const sandboxCommand = strictComponent('SandboxCommand', {
  command: boundedText(1, 65_536),
  cwd: boundedText(1, 4_096).optional(),
  timeout_seconds: z.int().min(1).max(600).default(60),
})

export const sandboxCommandResult = component('SandboxCommandResult', {
  exit_code: z.int().meta({ description: '-1 after the timeout.' }),
  stdout: z.string().meta({ description: 'Without the secrets of the sandbox; the end of a long one.' }),
  stderr: z.string(),
})

export const usageGroup = z.enum(['user', 'organization', 'model', 'day']).meta({ id: 'UsageGroup' })

export const usageLine = component('UsageLine', {
  key: z
    .string()
    .nullable()
    .meta({ description: 'A user, an organisation, a model or a UTC day; null: none.' }),
  name: z.string().nullable().meta({ description: 'Of the user or the organisation, while it is there.' }),
  conversations: z.int().meta({ description: 'That used a model in that time.' }),
  cost: z.number().meta({ description: 'In dollars.' }),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cache_read_tokens: z.int(),
  cache_write_tokens: z.int(),
  reasoning_tokens: z.int(),
  sandbox_hours: z.number().nullable().meta({ description: 'Null by model.' }),
})
export type UsageLine = z.infer<typeof usageLine>

export const usageReport = component('UsageReport', {
  by: usageGroup,
  from: z.string(),
  to: z.string(),
  items: z.array(usageLine),
})
export type UsageReport = z.infer<typeof usageReport>
