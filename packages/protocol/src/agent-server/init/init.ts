import * as z from 'zod'
import {
  component,
  looseComponent,
  nullAsUndefined,
  strictComponent,
  withDefault,
} from '../../core/schemas.ts'

/** A webhook receiver (wire). Times are seconds. Unknown members are ignored. */
export const webhookSpec = component('WebhookSpec', {
  base_url: z
    .string()
    .regex(/^(https?|http\+unix):\/\/[^/]/i, 'The address is one of http, https or http+unix'),
  headers: withDefault(z.record(z.string(), z.string()), {}),
  event_buffer_size: nullAsUndefined(z.int().min(1)).meta({
    description:
      'Most events of a request; when this many wait they are sent at once. 100 unless given, or more.',
  }),
  max_batch_bytes: nullAsUndefined(z.int().min(1)).meta({
    description: 'Most bytes of a request; a larger event is sent alone. 5 MiB unless given, or more.',
  }),
  flush_delay: nullAsUndefined(z.number().min(0)).meta({
    description: 'Seconds from the first event that waits to the request.',
  }),
  num_retries: nullAsUndefined(z.int().min(0)),
  retry_delay: nullAsUndefined(z.number().min(0)),
  full_state: nullAsUndefined(z.boolean()).meta({
    description:
      'Whether snapshots of the state are sent too, as events that are not stored: with the first change after each start of the server, and when a run stops. No unless given.',
  }),
})
export type WebhookSpec = z.output<typeof webhookSpec>

/** Header-safe, so that a client can send it. */
const sessionKey = z.string().regex(/^[!-~]+$/, 'A key is printable ASCII without blanks')

const variableValue = z.string().regex(/^[^\0]*$/, 'A value holds no NUL')

const deliveredPath = nullAsUndefined(z.string().regex(/^\/[^\0]*$/, 'An absolute path'))

/** The settings of a server that starts without. Null means absent. */
export const initRequest = strictComponent('InitRequest', {
  session_api_keys: nullAsUndefined(z.array(sessionKey)),
  secret_key: nullAsUndefined(z.string().min(16)).meta({
    description: 'Text from which the key for stored secrets is made, 16 characters or more.',
  }),
  webhooks: nullAsUndefined(z.array(webhookSpec)),
  web_url: nullAsUndefined(z.url({ protocol: /^https?$/ })).meta({
    description:
      'Where people reach the server: pages of its origin may call, and its path is a prefix of every route.',
  }),
  allow_cors_origins: nullAsUndefined(z.array(z.string())),
  max_concurrent_runs: nullAsUndefined(z.int().min(1).max(100_000)),
  env: nullAsUndefined(
    z.record(z.string().regex(/^[A-Za-z_]\w*$/, 'Not the name of a variable'), variableValue),
  ).meta({
    description: 'Variables that tools get besides the usual ones.',
  }),
  conversations_path: deliveredPath.meta({
    description: 'The data directory: conversations, settings, profiles and secrets are stored there.',
  }),
  bash_events_dir: deliveredPath.meta({ description: 'Where commands of /api/bash are stored.' }),
  conversation_worktree_root: deliveredPath.meta({
    description: 'Where worktrees of conversations are made.',
  }),
  telemetry: nullAsUndefined(looseComponent('TelemetrySpec', {})).meta({
    description: 'Accepted and not used: the server reports to no one how it is used.',
  }),
})
export type InitRequest = z.output<typeof initRequest>

export const initState = z.enum(['dormant', 'initializing', 'ready']).meta({ id: 'InitState' })
export type InitState = z.infer<typeof initState>
