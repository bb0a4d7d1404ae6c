import * as z from 'zod'
import { success } from '../agent-server/conversations/conversation.ts'
import { queryText } from '../core/query.ts'
import type { RouteTable } from '../core/route.ts'
import {
  pageQuery,
  sandboxId,
  sandboxInfo,
  sandboxPage,
  sandboxSpecInfo,
  sandboxSpecPage,
} from './sandbox.ts'

const sandboxParams = z.object({ sandbox_id: sandboxId })
const successResponses = { 200: { description: 'Done, or it was so already.', schema: success } }
const idsQuery = (what: string) =>
  z.object({
    id: z
      .array(z.string())
      .min(1)
      .max(100)
      .meta({ description: `Ids of ${what}, repeated; at most 100.` }),
  })

/** Sandboxes and the specs that they are made from (spec 4.2). */
export const sandboxRoutes = {
  searchSandboxes: {
    method: 'GET',
    path: '/api/v1/sandboxes/search',
    tag: 'sandboxes',
    summary: 'List sandboxes in pages, the newest first',
    query: pageQuery,
    responses: { 200: { description: 'One page.', schema: sandboxPage } },
  },
  getSandboxes: {
    method: 'GET',
    path: '/api/v1/sandboxes',
    tag: 'sandboxes',
    summary: 'Get sandboxes by id',
    query: idsQuery('sandboxes'),
    responses: {
      200: {
        description: 'In the order asked for, null for the missing.',
        schema: z.array(sandboxInfo.nullable()),
      },
    },
  },
  startSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes',
    tag: 'sandboxes',
    summary: 'Start a sandbox',
    description:
      'Answers as soon as the sandbox is on its way, usually as STARTING. The spec is named in the query; without one the default is taken. A body is not read. With an Idempotency-Key header a repeat answers the same sandbox.',
    query: z.object({ sandbox_spec_id: queryText.meta({ description: 'Id of a spec.' }) }),
    responses: {
      200: { description: 'The sandbox.', schema: sandboxInfo },
      429: { description: 'As many sandboxes of yours run as may.' },
    },
  },
  pauseSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{sandbox_id}/pause',
    tag: 'sandboxes',
    summary: 'Pause a sandbox',
    description:
      'Answers when everything in it stands still. Its files stay, and with most backends its memory too.',
    params: sandboxParams,
    responses: {
      ...successResponses,
      409: { description: 'It cannot be paused: it is in ERROR or MISSING.' },
    },
  },
  resumeSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{sandbox_id}/resume',
    tag: 'sandboxes',
    summary: 'Resume a sandbox',
    description:
      'Answers when it is on its way: poll the sandbox until it is RUNNING. One in ERROR is started again on its files.',
    params: sandboxParams,
    responses: {
      ...successResponses,
      409: { description: 'Nothing is left of it that could be resumed.' },
      429: { description: 'As many sandboxes of yours run as may.' },
    },
  },
  deleteSandbox: {
    method: 'DELETE',
    path: '/api/v1/sandboxes/{sandbox_id}',
    tag: 'sandboxes',
    summary: 'Delete a sandbox and its files',
    description:
      'It is out of every list when this answers; what is left of it goes behind. Its conversations stay readable.',
    params: sandboxParams,
    query: z.object({
      sandbox_id: queryText.meta({ description: 'Sent by some clients too; must not differ from the path.' }),
    }),
    responses: successResponses,
  },
  searchSandboxSpecs: {
    method: 'GET',
    path: '/api/v1/sandbox-specs/search',
    tag: 'sandbox specs',
    summary: 'List the specs that sandboxes are made from, the default first',
    query: pageQuery,
    responses: { 200: { description: 'One page.', schema: sandboxSpecPage } },
  },
  getSandboxSpecs: {
    method: 'GET',
    path: '/api/v1/sandbox-specs',
    tag: 'sandbox specs',
    summary: 'Get specs by id',
    query: idsQuery('specs'),
    responses: {
      200: {
        description: 'In the order asked for, null for the missing.',
        schema: z.array(sandboxSpecInfo.nullable()),
      },
    },
  },
} as const satisfies RouteTable
