import * as z from 'zod'
import { given, otherwise } from '../../core/schemas.ts'

/** Where events and conversations are sent (wire: webhooks). Times are seconds. Unknown members are passed over. */
export const webhookSpec = z
  .object({
    base_url: z
      .string()
      .regex(/^(https?|http\+unix):\/\/[^/]/i, 'The address is one of http, https or http+unix'),
    headers: otherwise(z.record(z.string(), z.string()), {}),
    event_buffer_size: given(z.int().min(1)),
    flush_delay: given(z.number().min(0)),
    num_retries: given(z.int().min(0)),
    retry_delay: given(z.number().min(0)),
  })
  .meta({ id: 'WebhookSpec' })
export type WebhookSpec = z.output<typeof webhookSpec>

/** Header-safe, so that a client can send it. */
const key = z.string().regex(/^[!-~]+$/, 'A key is printable ASCII without blanks')

const value = z.string().regex(/^[^\0]*$/, 'A value holds no NUL')

/** What a server that waits for its settings is given. Unknown members are passed over; null is not given. */
export const initRequest = z
  .object({
    session_api_keys: given(z.array(key)),
    secret_key: given(z.string().min(16)).meta({
      description: 'Text from which the key for stored secrets is made, 16 characters or more.',
    }),
    webhooks: given(z.array(webhookSpec)),
    web_url: given(z.url({ protocol: /^https?$/ })).meta({
      description: 'Where people reach the server; pages of its origin may call.',
    }),
    allow_cors_origins: given(z.array(z.string())),
    max_concurrent_runs: given(z.int().min(1).max(100_000)),
    env: given(z.record(z.string().regex(/^[A-Za-z_]\w*$/, 'Not the name of a variable'), value)).meta({
      description: 'Variables that tools get besides the usual ones.',
    }),
  })
  .meta({ id: 'InitRequest' })
export type InitRequest = z.output<typeof initRequest>

export const initState = z.enum(['dormant', 'initializing', 'ready']).meta({ id: 'InitState' })
export type InitState = z.infer<typeof initState>

export const initStatus = z
  .object({ state: initState, error: z.string().optional() })
  .meta({ id: 'InitStatus' })
