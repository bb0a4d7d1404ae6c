import * as z from 'zod'
import { component, nullAsUndefined } from '../../core/schemas.ts'

/** The most that may be used; a limit that is absent or null does not exist. */
export const usageLimits = component('UsageLimits', {
  cost: nullAsUndefined(z.number().positive()).meta({
    description: 'Dollars, at the prices that are known. Models without a price count as free.',
  }),
  tokens: nullAsUndefined(z.int().min(1)).meta({ description: 'Input and output of all models.' }),
  steps: nullAsUndefined(z.int().min(1)).meta({ description: 'Replies of the agent loop.' }),
  seconds: nullAsUndefined(z.number().positive()).meta({
    description: 'Time that runs take; waiting for a confirmation does not count.',
  }),
})
export type UsageLimits = z.output<typeof usageLimits>
export type LimitName = keyof UsageLimits

/**
 * Limits of each run and of the whole conversation. A run continues after a pause, a confirmation and a
 * restart; after its end the next one counts from zero.
 */
export const conversationLimits = component('ConversationLimits', {
  run: nullAsUndefined(usageLimits),
  conversation: nullAsUndefined(usageLimits),
})
export type ConversationLimits = z.output<typeof conversationLimits>
export type LimitScope = keyof ConversationLimits
