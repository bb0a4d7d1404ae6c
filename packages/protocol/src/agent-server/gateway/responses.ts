import * as z from 'zod'
import { looseComponent, nullAsUndefined } from '../../core/schemas.ts'
import { gatewayContent } from './message-parts.ts'
import { requestLabels, samplingMembers } from './request-members.ts'

/** An item of the input; which members its type needs is checked when the request is read, with 400. */
export const responsesItem = looseComponent('ResponsesItem', {
  type: z.string().optional(),
  id: nullAsUndefined(z.string()),
  role: z.enum(['user', 'assistant', 'system', 'developer']).optional(),
  content: gatewayContent,
  call_id: nullAsUndefined(z.string()),
  name: nullAsUndefined(z.string()),
  arguments: nullAsUndefined(z.string()),
  output: gatewayContent,
})
export type ResponsesItem = z.output<typeof responsesItem>

/** What cannot be done is refused when the request is read, with 400. */
export const responsesRequest = looseComponent('ResponsesRequest', {
  model: z.string().meta({ description: 'Id of a model of the list.' }),
  input: z.union([z.string(), z.array(responsesItem)]).meta({
    description: 'A text of the user, or messages, calls and results of calls.',
  }),
  instructions: nullAsUndefined(z.string()),
  previous_response_id: nullAsUndefined(z.string()).meta({
    description: 'Continue from this response. From one that was continued already, another branch begins.',
  }),
  stream: nullAsUndefined(z.boolean()),
  store: nullAsUndefined(z.boolean()).meta({ description: 'False: nothing is left of it. Default true.' }),
  background: nullAsUndefined(z.boolean()).meta({ description: 'Answer at once; the run continues behind.' }),
  tools: nullAsUndefined(z.array(z.looseObject({ type: z.string() }))).meta({
    description: 'Functions of the client. A call of one ends the response; its result continues it.',
  }),
  tool_choice: z.unknown().optional(),
  parallel_tool_calls: nullAsUndefined(z.boolean()),
  text: nullAsUndefined(z.looseObject({ format: nullAsUndefined(z.looseObject({ type: z.string() })) })),
  max_output_tokens: nullAsUndefined(z.int().min(1)).meta({
    description: 'Most tokens of one reply of the model.',
  }),
  reasoning: nullAsUndefined(z.looseObject({ effort: nullAsUndefined(z.string()) })),
  truncation: nullAsUndefined(z.enum(['auto', 'disabled'])),
  ...samplingMembers,
  ...requestLabels,
})
export type ResponsesRequest = z.output<typeof responsesRequest>

export const responseParams = z.object({ response_id: z.string() })

export const responsesResponse = looseComponent('ResponsesResponse', {
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status: z.enum(['completed', 'in_progress', 'failed', 'incomplete', 'cancelled']),
  incomplete_details: z.object({ reason: z.string() }).nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  model: z.string(),
  previous_response_id: z.string().nullable(),
  output: z.array(responsesItem),
  instructions: z.string().nullable(),
  metadata: z.record(z.string(), z.string()),
  store: z.boolean(),
  background: z.boolean(),
  usage: z
    .object({
      input_tokens: z.int(),
      output_tokens: z.int(),
      total_tokens: z.int(),
      input_tokens_details: z.object({ cached_tokens: z.int() }),
      output_tokens_details: z.object({ reasoning_tokens: z.int() }),
    })
    .nullable(),
})

export const getResponseQuery = z.object({
  stream: z.enum(['true', 'false']).optional().meta({ description: 'Only `false` is supported.' }),
})

export const inputItemsQuery = z.object({
  order: z.enum(['asc', 'desc']).default('desc'),
  limit: z.coerce.number().int().min(1).max(100).default(20),
  after: z.string().optional().meta({ description: 'The id of the last item seen.' }),
})

export const inputItemList = looseComponent('ResponseInputItems', {
  object: z.literal('list'),
  data: z.array(responsesItem),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
})

export const deletedResponse = looseComponent('DeletedResponse', {
  id: z.string(),
  object: z.literal('response'),
  deleted: z.literal(true),
})
