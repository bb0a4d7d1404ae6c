import * as z from 'zod'
import { boundedText, component, nullAsUndefined, strictComponent, timestamp } from '../core/schemas.ts'

const dollars = z.number().min(0).max(10_000_000)
export const maxBudgetMicros = 10_000_000_000_000
export const maxBudgetTokens = 1_000_000_000
const micros = z.int().min(0).max(maxBudgetMicros)
const tokens = z.int().min(0).max(maxBudgetTokens)

export const budgetScope = z.enum(['user', 'organization']).meta({ id: 'BudgetScope' })

/** A budget in the present month (UTC). Money is in dollars. */
export const budget = component('Budget', {
  scope: budgetScope,
  target_id: z.string().meta({ description: 'Id of the user or the organisation.' }),
  target_name: z.string().nullable(),
  month: z.string().meta({ description: 'As 2026-01.' }),
  monthly_limit: z.number(),
  extra: z.number().meta({ description: 'Granted in addition, for this month alone.' }),
  spent: z.number(),
  reserved: z.number().meta({
    description: 'Of model calls in progress, and of those whose agent server died before their end.',
  }),
  left: z.number(),
  state: z.enum(['ok', 'warning', 'exhausted']).meta({ description: '`warning`: from 80 % on.' }),
  message: z.string().nullable().meta({ description: 'What to do; null while the state is `ok`.' }),
  ask: z.string().meta({ description: 'Who set it: a name, or `an administrator`.' }),
  resets_at: timestamp,
})
export type Budget = z.infer<typeof budget>

export const setBudgetRequest = strictComponent('SetBudgetRequest', { monthly_limit: dollars })

export const budgetRequest = component('BudgetRequest', {
  id: z.string(),
  user_id: z.string(),
  user_name: z.string().nullable(),
  scope: budgetScope,
  target_id: z.string(),
  amount: z.number(),
  reason: z.string(),
  status: z.enum(['open', 'granted', 'denied']),
  granted: z.number().nullable(),
  note: z.string().nullable(),
  created_at: timestamp,
  answered_at: timestamp.nullable(),
})
export type BudgetRequest = z.infer<typeof budgetRequest>

const amount = dollars.gt(0)
const note = nullAsUndefined(boundedText(0, 1000))

export const newBudgetRequest = strictComponent('NewBudgetRequest', {
  amount: amount.meta({ description: 'Dollars for this month, in addition.' }),
  reason: boundedText(1, 1000),
  scope: budgetScope.default('user'),
})
export const grantBudgetRequest = strictComponent('GrantBudgetRequest', {
  amount: nullAsUndefined(amount).meta({ description: 'What was asked for unless given.' }),
  note,
})
export const denyBudgetRequest = strictComponent('DenyBudgetRequest', { note })

/** Of one model call, before it is made. Money is in millionths of a dollar. */
export const budgetReservationRequest = component('BudgetReservationRequest', {
  model: boundedText(1, 500),
  input_tokens: tokens,
  max_output_tokens: tokens,
  input_cost_micros: micros.nullable().meta({ description: 'Null: the model has no known price.' }),
  output_cost_micros: micros.nullable().meta({ description: 'Of all those tokens of output.' }),
})
export type BudgetReservationRequest = z.infer<typeof budgetReservationRequest>

export const budgetReservation = component('BudgetReservation', {
  status: z.enum(['unlimited', 'granted', 'refused']).meta({
    description: '`unlimited`: no budget applies, and nothing was reserved.',
  }),
  max_output_tokens: z.int().nullable().meta({
    description: 'Lower than asked for where the budget does not suffice for more.',
  }),
  message: z.string().nullable().meta({ description: 'Why it is refused, and whom to ask.' }),
})
export type BudgetReservation = z.infer<typeof budgetReservation>

export const budgetSettlementRequest = component('BudgetSettlementRequest', {
  input_tokens: tokens,
  output_tokens: tokens,
  cost_micros: micros.nullable().meta({ description: 'Null: the model has no known price.' }),
})
export type BudgetSettlementRequest = z.infer<typeof budgetSettlementRequest>
