import * as z from 'zod'
import { component, looseComponent, nullAsUndefined } from '../../core/schemas.ts'
import { gatewayContent } from './message-parts.ts'

const inputMessage = looseComponent('ResponsesInputMessage', {
  type: z.literal('message').optional(),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content: gatewayContent,
})

const metadata = z.record(z.string(), z.string())

/** Members that are not listed are ignored: the profile decides. */
export const responsesRequest = looseComponent('ResponsesRequest', {
  model: z.string().meta({ description: 'Id of a model of the list.' }),
  input: z.union([z.string(), z.array(inputMessage)]).meta({
    description: 'A text of the user, or the messages so far. Each request is its own conversation.',
  }),
  instructions: nullAsUndefined(z.string()),
  metadata: nullAsUndefined(metadata),
  stream: nullAsUndefined(z.boolean()),
  store: nullAsUndefined(z.boolean()),
  previous_response_id: nullAsUndefined(z.string()),
})
export type ResponsesRequest = z.output<typeof responsesRequest>

export const responsesResponse = component('ResponsesResponse', {
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int(),
  status: z.literal('completed'),
  model: z.string(),
  output: z.array(
    z.object({
      id: z.string(),
      type: z.literal('message'),
      role: z.literal('assistant'),
      status: z.literal('completed'),
      content: z.array(
        z.object({ type: z.literal('output_text'), text: z.string(), annotations: z.array(z.unknown()) }),
      ),
    }),
  ),
  instructions: z.string().nullable(),
  metadata,
  tools: z.array(z.unknown()),
  tool_choice: z.literal('none'),
  parallel_tool_calls: z.literal(false),
  usage: z.object({
    input_tokens: z.int(),
    output_tokens: z.int(),
    total_tokens: z.int(),
    input_tokens_details: z.object({ cached_tokens: z.int() }),
    output_tokens_details: z.object({ reasoning_tokens: z.int() }),
  }),
})
