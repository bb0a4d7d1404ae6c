import * as z from 'zod'
import { component, looseComponent, nullAsUndefined, withDefault } from '../../core/schemas.ts'

const textPart = z.looseObject({ type: z.literal('text'), text: z.string() })
const imagePart = z.looseObject({
  type: z.literal('image_url'),
  image_url: z.union([z.string(), z.looseObject({ url: z.string() })]),
})

/** One message as OpenAI's interface has it. */
export const chatMessage = looseComponent('ChatMessage', {
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: z.union([z.string(), z.array(z.union([textPart, imagePart])), z.null()]).optional(),
})
export type ChatMessage = z.output<typeof chatMessage>

/** Wire 1.22. Members that are not listed are ignored: the profile decides. */
export const chatRequest = looseComponent('ChatCompletionRequest', {
  model: z.string().meta({ description: 'Id of a model of the list.' }),
  messages: z.array(chatMessage).min(1).meta({
    description: 'The last one is a message of the user. The others are for a conversation that begins.',
  }),
  stream: withDefault(z.boolean(), false),
  stream_options: nullAsUndefined(z.looseObject({ include_usage: withDefault(z.boolean(), false) })),
})
export type ChatRequest = z.output<typeof chatRequest>

const usage = z.object({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() })

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
  usage,
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
