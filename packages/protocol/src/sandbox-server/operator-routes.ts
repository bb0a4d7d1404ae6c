import * as z from 'zod'
import { executionStatus } from '../agent-server/conversations/conversation.ts'
import { parseInstant } from '../core/instant.ts'
import { emptyAsUndefined, pageQuery, queryText } from '../core/query.ts'
import { ok, successResponses } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { pageOf } from '../core/schemas.ts'
import {
  changeSandboxesRequest,
  changeSandboxesResult,
  ownedConversation,
  ownedConversationSortOrder,
  sandboxCommand,
  sandboxCommandResult,
  sandboxEvent,
  sandboxLog,
  usageGroup,
  usageReport,
} from './operator.ts'
import { sandboxId } from './sandbox.ts'

const day = z
  .string()
  .regex(/^\d{4}-\d{2}-\d{2}$/, 'A day is written as 2026-01-31')
  .refine((text) => parseInstant(text) !== undefined, 'There is no such day')
const usageQuery = z.object({
  by: usageGroup.default('user'),
  from: emptyAsUndefined(day.optional()).meta({
    description: 'The first UTC day, as 2026-01-31; that of this month unless given.',
  }),
  to: emptyAsUndefined(day.optional()).meta({ description: 'The last day, included; today unless given.' }),
  org_id: queryText.meta({ description: 'Only of this organisation; its owners and admins name it.' }),
})

/** What administrators see of the sandboxes and conversations of all users, and do with many of them. */
export const operatorRoutes = defineRoutes(
  'admin',
  {
    listAllConversations: route.get('/api/admin/conversations', {
      summary: 'List the conversations of all users in pages, the newest first unless asked otherwise',
      description: 'None of their events. Pages are as those of sandboxes.',
      query: pageQuery.extend({
        user_id: queryText.meta({ description: 'Only those of this user.' }),
        org_id: queryText.meta({ description: 'Only those of this organisation.' }),
        execution_status: emptyAsUndefined(executionStatus.optional()),
        text: queryText.meta({ description: 'Keep only those with this in the title, in any case.' }),
        sort_order: emptyAsUndefined(ownedConversationSortOrder.optional()),
      }),
      responses: ok('One page.', pageOf(ownedConversation).meta({ id: 'OwnedConversationPage' })),
    }),
    changeSandboxes: route.post('/api/admin/sandboxes/actions', {
      audit: { target: 'sandbox' },
      summary: 'Pause or delete several sandboxes of any users',
      description: 'Each for itself: one that fails holds up no other. Deletions keep the conversations.',
      body: changeSandboxesRequest,
      responses: ok('One result for each id.', changeSandboxesResult),
      example: { action: 'pause', ids: ['sb-0123456789abcdef'] },
    }),
    getUsage: route.get('/api/admin/usage', {
      access: 'organization',
      summary: 'Sum tokens, cost, conversations and hours of sandboxes by user, organisation, model or day',
      description:
        'What conversations have reported, each use once; with a key of an organisation its own. What was used before the server kept it by day is not in it.',
      query: usageQuery,
      responses: ok('One line for each.', usageReport),
    }),
    downloadUsage: route.get('/api/admin/usage.csv', {
      access: 'organization',
      summary: 'The same as CSV',
      query: usageQuery,
      responses: { 200: { description: 'A head and a line for each.', contentType: 'text/csv' } },
    }),
  },
  { access: 'admin' },
)

const sandboxParams = z.object({ sandbox_id: sandboxId })
const who =
  'With the scope write for sandboxes of the caller, with the scope operate for those of others: their owners see it in the events.'
const notRunning = { 409: { description: 'The sandbox does not run: detail says its status.' } }

/** Looking into a sandbox, for its owner and for operators. */
export const operateRoutes = defineRoutes(
  'sandboxes',
  {
    getSandboxLog: route.get('/api/v1/sandboxes/{sandbox_id}/log', {
      summary: 'Read what the agent server of a sandbox printed',
      description: `The last 256 KiB; of a deleted one the last 64 KiB, for 7 days. ${who}`,
      audit: { target: 'sandbox', id: 'sandbox_id' },
      params: sandboxParams,
      responses: ok('Its log, without secrets.', sandboxLog),
    }),
    listSandboxEvents: route.get('/api/v1/sandboxes/{sandbox_id}/events', {
      summary: 'List what happened to a sandbox, the oldest first',
      description: `The newest 200; of a deleted one for 30 days. ${who}`,
      params: sandboxParams,
      responses: ok('Its events.', z.object({ items: z.array(sandboxEvent) })),
    }),
    execInSandbox: route.post('/api/v1/sandboxes/{sandbox_id}/exec', {
      audit: { target: 'sandbox', id: 'sandbox_id' },
      summary: 'Run a command in a sandbox by bash, and wait for its end',
      description: who,
      params: sandboxParams,
      body: sandboxCommand,
      responses: { ...ok('What it printed.', sandboxCommandResult), ...notRunning },
      example: { command: 'df -h' },
    }),
    restartSandbox: route.post('/api/v1/sandboxes/{sandbox_id}/restart', {
      audit: { target: 'sandbox', id: 'sandbox_id' },
      summary: 'End the processes of a sandbox and start its agent server again on its files',
      description: `Answers when it is on its way. What runs in it ends. ${who}`,
      params: sandboxParams,
      responses: { ...successResponses, ...notRunning },
    }),
  },
  { access: 'operate' },
)
