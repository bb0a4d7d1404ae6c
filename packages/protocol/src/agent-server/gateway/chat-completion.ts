import * as z from 'zod'
import { component, looseComponent, nullAsUndefined, withDefault } from '../../core/schemas.ts'
import { gatewayContent, gatewayUsage } from './message-parts.ts'

/** One message as OpenAI's interface has it. */
export const chatMessage = looseComponent('ChatMessage', {
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: gatewayContent,
})
export type ChatMessage = z.output<typeof chatMessage>

/** Wire 1.22. Members that are not listed are ignored: the profile decides. */
export const chatRequest = looseComponent('ChatCompletionRequest', {
  model: z.string().meta({ description: 'Id of a model of the list.' }),
  messages: z.array(chatMessage).meta({
    description:
      'The last one of the user is the message. Those before it are for a conversation that begins.',
  }),
  stream: withDefault(z.boolean(), false),
  stream_options: nullAsUndefined(z.looseObject({ include_usage: withDefault(z.boolean(), false) })),
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
      message: z.object({ role: z.literal('assistant'), content: z.string() }),
      finish_reason: z.literal('stop'),
    }),
  ),
  usage: gatewayUsage,
})

export const modelList = component('ModelList', {
  object: z.literal('list'),
  data: z.array(
    z.object({
      id: z.string(),
      object: z.literal('model'),
      created: z.int(),
      owned_by: z.string(),
    }),
  ),
})
