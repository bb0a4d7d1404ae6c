import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { mcpErrorKind, mcpOAuthStatus, mcpTestRequest, mcpTestResponse } from './mcp.ts'

const jobParams = z.object({ job_id: z.string() })
const statusResponses = {
  200: { description: 'How far it is.', schema: mcpOAuthStatus },
  404: { description: 'There is no such sign-in.' },
}

/** This server starts no OAuth sign-in; servers that need one are given a token. */
export const mcpRoutes = defineRoutes('mcp', {
  testMcpServer: route.post('/api/mcp/test', {
    summary: 'Try an MCP server before it is saved',
    description:
      'Connects, lists the tools, makes the one call that is asked for, and lets go of everything: a process that was started is ended. A failure is an answer.',
    body: mcpTestRequest,
    responses: ok('What came of it.', mcpTestResponse),
  }),
  startMcpOAuth: route.post('/api/mcp/oauth/start', {
    summary: 'Begin to sign in to an MCP server',
    body: mcpTestRequest,
    responses: ok(
      'Whether it began.',
      component('MCPOAuthStartResponse', {
        ok: z.boolean(),
        job_id: z.string().optional(),
        authorization_url: z.string().optional(),
        error: z.string().optional(),
        error_kind: mcpErrorKind.optional(),
      }),
    ),
  }),
  getMcpOAuthStatus: route.get('/api/mcp/oauth/status/{job_id}', {
    summary: 'Get the state of a sign-in to an MCP server',
    params: jobParams,
    responses: statusResponses,
  }),
  finishMcpOAuth: route.post('/api/mcp/oauth/callback/{job_id}', {
    summary: 'End a sign-in to an MCP server',
    params: jobParams,
    body: component('MCPOAuthCallbackRequest', { callback_url: z.string() }),
    responses: statusResponses,
  }),
})
