import * as z from 'zod'

/** A part of a message; its type and members are checked after the request was parsed, with 400. */
export const gatewayPart = z.looseObject({ type: z.string() })
export type GatewayPart = z.output<typeof gatewayPart>

/** Text, or parts of it and of images. */
export const gatewayContent = z.union([z.string(), z.array(gatewayPart), z.null()]).optional()

/** Tokens of one request. */
export const gatewayUsage = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.object({ cached_tokens: z.int() }),
  completion_tokens_details: z.object({ reasoning_tokens: z.int() }),
})
export type GatewayUsage = z.output<typeof gatewayUsage>
