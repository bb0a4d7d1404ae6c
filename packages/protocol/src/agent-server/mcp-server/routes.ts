import { defineRoutes, route } from '../../core/route.ts'

/** The door of MCP clients. */
export const mcpServerRoutes = defineRoutes('mcp server', {
  serveMcp: route.post('/mcp', {
    summary: 'Serve MCP clients',
    description:
      'Streamable HTTP of the Model Context Protocol, without sessions, in the revisions up to 2025-11-25 and in 2026-07-28. A key with scopes sees the tools that it may call.',
    bearer: true,
    scope: 'any',
    maxBodyBytes: 1024 * 1024,
    headers: {
      'MCP-Protocol-Version': 'The revision.',
      'Mcp-Method': 'From 2026-07-28 on: the method of the message.',
      'Mcp-Name': 'Likewise: the tool or resource.',
    },
    responses: {
      200: { description: 'The answer.', contentType: ['application/json', 'text/event-stream'] },
      202: { description: 'A notification was taken.' },
      400: { description: 'No message of the protocol, or of a revision that is not known.' },
    },
  }),
})
