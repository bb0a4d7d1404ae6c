import { tmpdir } from 'node:os'
import { tryMcpServer } from '@slipway/agent'
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
    const trial = await tryMcpServer({
      name,
      server: serverOf(request.server),
      call: tool_call,
      timeoutMs: timeout * 1000,
      directory: tmpdir(),
      environment,
      signal,
    })
    if ('failure' in trial) return { ok: false, error: trial.failure, error_kind: trial.kind }
    const { tools, result } = trial
    const tool_result = result === undefined ? undefined : { is_error: result.isError, text: result.text }
    return { ok: true, tools: [...tools], ...(tool_result === undefined ? {} : { tool_result }) }
  } catch (error) {
    if (!signal.aborted) throw error
    return { ok: false, error: 'The test was given up.', error_kind: 'unknown' }
  }
}

/** The same server as an agent's settings have it. */
function serverOf(tested: McpTestRequest['server']): McpServer {
  if (tested.type === 'stdio') {
    const { command, args, env, cwd } = tested
    return mcpServer.parse({ command, args, env, cwd })
  }
  const { type, url, headers, auth, transport = type } = tested
  return mcpServer.parse({ url, headers, auth, transport })
}
