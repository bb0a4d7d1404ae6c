import * as z from 'zod'
import { pageQuery, queryText } from '../core/query.ts'
import { listed, ok, success } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { pageOf } from '../core/schemas.ts'
import { sandboxId, sandboxInfo, sandboxSpecInfo, sandboxUse } from './sandbox.ts'

const sandboxParams = z.object({ sandbox_id: sandboxId })
const successResponses = ok('Done, or it was so already.', success)
const idsQuery = (what: string) =>
  z.object({
    id: z
      .array(z.string())
      .min(1)
      .max(100)
      .meta({ description: `Ids of ${what}, repeated; at most 100.` }),
  })

/** Sandboxes and the specs that they are made from (spec 4.2). */
export const sandboxRoutes = defineRoutes(
  'sandboxes',
  {
    searchSandboxes: route.get('/api/v1/sandboxes/search', {
      summary: 'List sandboxes in pages, the newest first',
      query: pageQuery,
      responses: ok('One page.', pageOf(sandboxInfo).meta({ id: 'SandboxPage' })),
    }),
    getSandboxes: route.get('/api/v1/sandboxes', {
      summary: 'Get sandboxes by id',
      query: idsQuery('sandboxes'),
      responses: listed(sandboxInfo),
    }),
    getSandboxUse: route.get('/api/v1/sandboxes/use', {
      summary: 'Get what sandboxes use',
      description:
        'Memory and processor time of all processes. Null for a sandbox without processes, and where its backend does not measure it (Kubernetes).',
      query: idsQuery('sandboxes'),
      responses: listed(sandboxUse),
    }),
    startSandbox: route.post('/api/v1/sandboxes', {
      headers: { 'Idempotency-Key': 'A repeat with this key is answered as the first time.' },
      summary: 'Start a sandbox',
      audit: { target: 'sandbox' },
      description:
        'Answers as soon as the sandbox is on its way, usually as STARTING. The spec is named in the query; without one the default is taken. A body is not read. With an Idempotency-Key header a repeat answers the same sandbox.',
      query: z.object({ sandbox_spec_id: queryText.meta({ description: 'Id of a spec.' }) }),
      responses: {
        200: { description: 'The sandbox.', schema: sandboxInfo },
        429: { description: 'As many sandboxes of yours run as may.' },
      },
    }),
    pauseSandbox: route.post('/api/v1/sandboxes/{sandbox_id}/pause', {
      summary: 'Pause a sandbox',
      audit: { target: 'sandbox', id: 'sandbox_id' },
      description:
        'Answers when everything in it stands still. Its files stay, and with most backends its memory too.',
      params: sandboxParams,
      responses: {
        ...successResponses,
        409: { description: 'It cannot be paused: it is in ERROR or MISSING.' },
      },
    }),
    resumeSandbox: route.post('/api/v1/sandboxes/{sandbox_id}/resume', {
      summary: 'Resume a sandbox',
      audit: { target: 'sandbox', id: 'sandbox_id' },
      description:
        'Answers when it is on its way: poll the sandbox until it is RUNNING. One that is STARTING or RUNNING stays as it is, with its key. One in ERROR is started again on its files.',
      params: sandboxParams,
      responses: {
        ...successResponses,
        409: {
          description: 'Nothing is left of it that could be resumed: detail has code and current_status.',
        },
        429: { description: 'As many sandboxes of yours run as may.' },
        502: { description: 'Its backend failed, and is tried again: detail says why.' },
      },
    }),
    deleteSandbox: route.delete('/api/v1/sandboxes/{sandbox_id}', {
      summary: 'Delete a sandbox and its files',
      audit: { target: 'sandbox', id: 'sandbox_id' },
      description:
        'It is out of every list when this answers; what is left of it goes behind. Its conversations stay readable.',
      params: sandboxParams,
      query: z.object({
        sandbox_id: queryText.meta({
          description: 'Sent by some clients too; must not differ from the path.',
        }),
      }),
      responses: successResponses,
    }),
    searchSandboxSpecs: route.get('/api/v1/sandbox-specs/search', {
      tag: 'sandbox specs',
      summary: 'List the specs that sandboxes are made from, the default first',
      query: pageQuery,
      responses: ok('One page.', pageOf(sandboxSpecInfo).meta({ id: 'SandboxSpecPage' })),
    }),
    getSandboxSpecs: route.get('/api/v1/sandbox-specs', {
      tag: 'sandbox specs',
      summary: 'Get specs by id',
      query: idsQuery('specs'),
      responses: listed(sandboxSpecInfo),
    }),
    archiveSandbox: route.post('/api/v1/sandboxes/{sandbox_id}/archive', {
      summary: 'Delete the files of a sandbox and keep the histories of its conversations',
      audit: { target: 'sandbox', id: 'sandbox_id' },
      description:
        'A running one is paused first. It is MISSING from then on and stays in lists until it is deleted; a resume answers 409. A start with the conversation_id of one of its conversations continues that in another sandbox, with its history.',
      params: sandboxParams,
      responses: {
        ...successResponses,
        409: {
          description:
            'Something runs in it, or events of it are not here yet: nothing is deleted. Detail says what to do.',
        },
      },
    }),
  },
  { access: 'user' },
)
