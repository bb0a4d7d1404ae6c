import * as z from 'zod'
import { component, looseComponent, nullAsUndefined, withDefault } from '../../core/schemas.ts'
import { gatewayContent, gatewayUsage } from './message-parts.ts'
import { requestLabels, samplingMembers } from './request-members.ts'

const chatToolCall = z.looseObject({
  id: z.string(),
  type: z.literal('function').optional(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
})

/** One message as OpenAI's interface has it. */
export const chatMessage = looseComponent('ChatMessage', {
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: gatewayContent,
  tool_calls: nullAsUndefined(z.array(chatToolCall)),
  tool_call_id: nullAsUndefined(z.string()),
})
export type ChatMessage = z.output<typeof chatMessage>

/** Wire 1.22. What cannot be done is refused when the request is read, with 400. */
export const chatRequest = looseComponent('ChatCompletionRequest', {
  model: z.string().meta({ description: 'Id of a model of the list.' }),
  messages: z.array(chatMessage).meta({
    description:
      'The last one of the user is the message. Those before it are for a conversation that begins.',
  }),
  stream: withDefault(z.boolean(), false),
  stream_options: nullAsUndefined(z.looseObject({ include_usage: withDefault(z.boolean(), false) })),
  tools: nullAsUndefined(z.array(z.looseObject({ type: z.string() }))).meta({
    description: 'Functions of the client. A call of one ends the answer; its result continues it.',
  }),
  tool_choice: z.unknown().optional(),
  response_format: nullAsUndefined(z.looseObject({ type: z.string() })),
  max_tokens: nullAsUndefined(z.int().min(1)).meta({ description: 'Most tokens of one reply of the model.' }),
  max_completion_tokens: nullAsUndefined(z.int().min(1)),
  stop: nullAsUndefined(z.union([z.string(), z.array(z.string()).max(4)])).meta({
    description: 'The answer ends before the first of these texts.',
  }),
  reasoning_effort: nullAsUndefined(z.string()),
  seed: nullAsUndefined(z.int()),
  store: nullAsUndefined(z.boolean()).meta({ description: 'False: the conversation is removed at the end.' }),
  ...samplingMembers,
  ...requestLabels,
})
export type ChatRequest = z.output<typeof chatRequest>

export const chatCompletion = component('ChatCompletion', {
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(
    z.object({
      index: z.int(),
      message: z.object({
        role: z.literal('assistant'),
        content: z.string().nullable(),
        refusal: z.null().optional(),
        tool_calls: z.array(chatToolCall).optional(),
      }),
      logprobs: z.null().optional(),
      finish_reason: z.enum(['stop', 'length', 'tool_calls']),
    }),
  ),
  usage: gatewayUsage,
})

export const gatewayModel = component('Model', {
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
})

export const modelList = component('ModelList', {
  object: z.literal('list'),
  data: z.array(gatewayModel),
})
