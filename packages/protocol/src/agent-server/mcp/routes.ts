import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'
import {
  mcpOAuthCallbackRequest,
  mcpOAuthStart,
  mcpOAuthStatus,
  mcpTestRequest,
  mcpTestResponse,
} from './mcp.ts'

const tag = 'mcp'
const jobParams = z.object({ job_id: z.string() })
const statusResponses = {
  200: { description: 'How far it is.', schema: mcpOAuthStatus },
  404: { description: 'There is no such sign-in.' },
}

/** Servers that ask for a sign-in of OAuth are given a token: this server begins no such sign-in, and says so. */
export const mcpRoutes = {
  testMcpServer: {
    method: 'POST',
    path: '/api/mcp/test',
    tag,
    summary: 'Try an MCP server before it is saved',
    description:
      'Connects, lists the tools, makes the one call that is asked for, and lets go of everything: a process that was started is ended. A failure is an answer.',
    body: mcpTestRequest,
    responses: { 200: { description: 'What came of it.', schema: mcpTestResponse } },
  },
  startMcpOAuth: {
    method: 'POST',
    path: '/api/mcp/oauth/start',
    tag,
    summary: 'Begin to sign in to an MCP server',
    body: mcpTestRequest,
    responses: { 200: { description: 'Whether it began.', schema: mcpOAuthStart } },
  },
  getMcpOAuthStatus: {
    method: 'GET',
    path: '/api/mcp/oauth/status/{job_id}',
    tag,
    summary: 'Get the state of a sign-in to an MCP server',
    params: jobParams,
    responses: statusResponses,
  },
  finishMcpOAuth: {
    method: 'POST',
    path: '/api/mcp/oauth/callback/{job_id}',
    tag,
    summary: 'End a sign-in to an MCP server',
    params: jobParams,
    body: mcpOAuthCallbackRequest,
    responses: statusResponses,
  },
} as const satisfies RouteTable
