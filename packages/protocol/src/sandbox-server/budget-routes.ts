import * as z from 'zod'
import { emptyAsUndefined, pageQuery } from '../core/query.ts'
import { ok, successResponses } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { pageOf, uuid } from '../core/schemas.ts'
import {
  budget,
  budgetRequest,
  budgetReservation,
  budgetReservationRequest,
  budgetScope,
  budgetSettlementRequest,
  denyBudgetRequest,
  grantBudgetRequest,
  newBudgetRequest,
  setBudgetRequest,
} from './budget.ts'
import { sandboxId } from './sandbox.ts'

const budgets = z.object({ items: z.array(budget) })
const budgetParams = z.object({ scope: budgetScope, target_id: z.string().min(1).max(100) })
const requestParams = z.object({ request_id: uuid })
const reservationParams = z.object({ sandbox_id: sandboxId, reservation_id: uuid })
const requestsQuery = pageQuery.extend({
  status: emptyAsUndefined(budgetRequest.shape.status.optional()).meta({
    description: 'Keep only those with this status.',
  }),
})
const requestPage = pageOf(budgetRequest).meta({ id: 'BudgetRequestPage' })
const answered = {
  ...ok('The request.', budgetRequest),
  409: { description: 'It is answered already.' },
}

/** The budgets of a caller, in money and by month, and requests for more. */
const ownBudgetRoutes = defineRoutes(
  'budgets',
  {
    listOwnBudgets: route.get('/api/budgets', {
      summary: 'The budgets that apply to the caller in this month: of the user and of the organisation',
      responses: ok('None, one or two.', budgets),
    }),
    listOwnBudgetRequests: route.get('/api/budgets/requests', {
      summary: 'List the requests of the caller for more, the newest first',
      query: requestsQuery,
      responses: ok('One page.', requestPage),
    }),
    requestBudget: route.post('/api/budgets/requests', {
      summary: 'Ask for more in this month',
      audit: { target: 'budget_request' },
      body: newBudgetRequest,
      responses: {
        201: { description: 'The request, which an administrator answers.', schema: budgetRequest },
        404: { description: 'There is no such budget that could be raised.' },
        409: { description: 'An earlier request waits for its answer.' },
      },
      example: { amount: 10, reason: 'The tests of the new parser' },
    }),
  },
  { access: 'user' },
)

const adminBudgetRoutes = defineRoutes(
  'admin',
  {
    listBudgets: route.get('/api/admin/budgets', {
      summary: 'List all budgets, with what is spent and reserved in this month',
      responses: ok('All of them.', budgets),
    }),
    setBudget: route.put('/api/admin/budgets/{scope}/{target_id}', {
      summary: 'Set what a user or an organisation may spend on models in a month',
      audit: { target: 'budget', id: 'target_id' },
      description: 'A new budget counts what was used in this month before.',
      params: budgetParams,
      body: setBudgetRequest,
      responses: ok('The budget.', budget),
      example: { monthly_limit: 50 },
    }),
    removeBudget: route.delete('/api/admin/budgets/{scope}/{target_id}', {
      summary: 'Remove a budget: its user or organisation is not limited any more',
      audit: { target: 'budget', id: 'target_id' },
      params: budgetParams,
      responses: successResponses,
    }),
    listBudgetRequests: route.get('/api/admin/budget-requests', {
      summary: 'List requests for more, the newest first',
      query: requestsQuery,
      responses: ok('One page.', requestPage),
    }),
    grantBudgetRequest: route.post('/api/admin/budget-requests/{request_id}/grant', {
      summary: 'Grant a request: the budget is raised for this month',
      audit: { target: 'budget_request', id: 'request_id' },
      params: requestParams,
      body: grantBudgetRequest.prefault({}),
      responses: answered,
    }),
    denyBudgetRequest: route.post('/api/admin/budget-requests/{request_id}/deny', {
      summary: 'Deny a request',
      audit: { target: 'budget_request', id: 'request_id' },
      params: requestParams,
      body: denyBudgetRequest.prefault({}),
      responses: answered,
    }),
  },
  { access: 'admin' },
)

const reservationRoutes = defineRoutes(
  'sandbox budgets',
  {
    reserveBudget: route.put('/api/v1/sandboxes/{sandbox_id}/budget/{reservation_id}', {
      summary: 'Reserve what a model call may cost, before it is made',
      description:
        'With the session key of the sandbox in X-Session-API-Key. The caller chooses the id: a repeat reserves nothing more.',
      params: reservationParams,
      body: budgetReservationRequest,
      responses: {
        ...ok('Whether the call may be made.', budgetReservation),
        409: { description: 'The id is that of another reservation.' },
      },
      example: {
        model: 'openai/gpt-5',
        ...{ input_tokens: 2000, max_output_tokens: 8000 },
        ...{ input_cost_micros: 2500, output_cost_micros: 80_000 },
      },
    }),
    settleBudget: route.post('/api/v1/sandboxes/{sandbox_id}/budget/{reservation_id}/settle', {
      summary: 'Say what a model call has cost; a repeat counts nothing more',
      params: reservationParams,
      body: budgetSettlementRequest,
      responses: {
        ...successResponses,
        404: { description: 'The sandbox has no such reservation, or settled it more than a day ago.' },
      },
    }),
  },
  { access: 'sandbox' },
)

export const budgetRoutes = { ...ownBudgetRoutes, ...adminBudgetRoutes, ...reservationRoutes }
