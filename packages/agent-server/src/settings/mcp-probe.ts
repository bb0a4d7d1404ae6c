import { tmpdir } from 'node:os'
import { probeMcpServer } from '@slipway/agent'
import { type McpServer, type McpTestRequest, type McpTestResponse, mcpServer } from '@slipway/protocol'

/**
 * Tries an MCP server, with secrets in clear. Nothing of it is left afterwards, also when the signal aborts. A failure is an answer; no
 * answer holds a secret of the request.
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
      directory: tmpdir(),
      environment,
      signal,
    })
    if ('failure' in outcome) return { ok: false, error: outcome.failure, error_kind: outcome.kind }
    const { tools, result } = outcome
    const tool_result = result === undefined ? undefined : { is_error: result.isError, text: result.text }
    return { ok: true, tools: [...tools], ...(tool_result === undefined ? {} : { tool_result }) }
  } catch (error) {
    if (!signal.aborted) throw error
    return { ok: false, error: 'The test was given up.', error_kind: 'unknown' }
  }
}

/** The same server as an agent's settings have it. */
function toMcpServer(server: McpTestRequest['server']): McpServer {
  if (server.type === 'stdio') {
    const { command, args, env, cwd } = server
    return mcpServer.parse({ command, args, env, cwd })
  }
  const { type, url, headers, auth, transport = type } = server
  return mcpServer.parse({ url, headers, auth, transport })
}
