import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { conversationParams } from '../conversations/conversation.ts'
import { mcpOAuthStartRequest, mcpOAuthStatus, mcpTestRequest, mcpTestResponse } from './mcp.ts'

const jobParams = z.object({ job_id: z.string() })
/** A prompt that an MCP server offers to users. */
const mcpPrompt = component('MCPPrompt', {
  server: z.string(),
  name: z.string(),
  title: z.string().nullable(),
  description: z.string().nullable(),
  arguments: z.array(
    z.object({ name: z.string(), description: z.string().nullable(), required: z.boolean() }),
  ),
})
const statusResponses = {
  200: { description: 'How far it is.', schema: mcpOAuthStatus },
  404: { description: 'There is no such sign-in.' },
}

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
    description:
      'Registers a client where the server wants one, and answers with the address where the user consents; without one when no consent is needed. The address to which the user is sent then belongs in the callback, unless the browser has reached it on this machine. A sign-in can be asked about for 15 minutes.',
    body: mcpOAuthStartRequest,
    responses: {
      200: { description: 'Whether it began.', schema: mcpOAuthStatus },
      400: { description: 'The auth of the server has another strategy than oauth2.' },
      409: { description: 'Too many sign-ins are under way.' },
    },
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
    responses: {
      ...statusResponses,
      400: { description: 'It is not the address of this sign-in, which waits on.' },
      409: { description: 'It does not wait for a callback.' },
    },
  }),
  listMcpPrompts: route.get('/api/conversations/{conversation_id}/mcp_prompts', {
    summary: 'List the prompts that the MCP servers of a conversation offer',
    description:
      'Connects the servers that are not connected. A message that begins with `/server:name` and its arguments starts a prompt.',
    params: conversationParams,
    responses: {
      200: { description: 'The prompts.', schema: z.object({ prompts: z.array(mcpPrompt) }) },
      409: { description: 'A required server did not start, or a repository waits for consent.' },
    },
  }),
})
