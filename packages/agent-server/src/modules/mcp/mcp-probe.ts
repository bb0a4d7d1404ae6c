import { probeMcpServer } from '@slipway/agent'
import { type McpServer, type McpTestRequest, type McpTestResponse, mcpServer } from '@slipway/protocol'

/**
 * Tests an MCP server; the answer has no secrets, and a failure is an answer. Its process ends before this
 * returns.
 */
export async function testMcpServer(
  request: McpTestRequest,
  environment: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<McpTestResponse> {
  const { name, timeout, tool_call } = request
  try {
    const outcome = await probeMcpServer({
      name,
      server: toMcpServer(request.server),
      call: tool_call,
      timeoutMs: timeout * 1000,
      environment,
      signal,
    })
    if ('failure' in outcome) return { ok: false, error: outcome.failure, error_kind: outcome.kind }
    const { tools, result } = outcome
    const tool_result = result === undefined ? undefined : { is_error: result.isError, text: result.text }
    return { ok: true, tools: [...tools], ...(tool_result === undefined ? {} : { tool_result }) }
  } catch (error) {
    if (!signal.aborted) throw error
    return { ok: false, error: 'The test was cancelled.', error_kind: 'unknown' }
  }
}

/** The server in the format of agent settings. */
function toMcpServer(server: McpTestRequest['server']): McpServer {
  if (server.type === 'stdio') {
    const { command, args, env, cwd } = server
    return mcpServer.parse({ command, args, env, cwd })
  }
  const { type, url, headers, auth, transport = type } = server
  return mcpServer.parse({ url, headers, auth, transport })
}
