import { CallError, type CallInput, type Client } from '@slipway/client'
import { asRecord, isRecord } from '@slipway/shared/json'

/** An MCP server as a request has it. */
export type McpServerInput = NonNullable<CallInput<'createMcpServer'>['body']>

/** The MCP servers of the settings of an agent server, by name; secrets are stars, or sealed for requests. */
export async function listMcpServers(
  client: Client,
  signal: AbortSignal,
  secrets: 'masked' | 'sealed' = 'masked',
): Promise<Readonly<Record<string, McpServerInput>>> {
  const headers = secrets === 'masked' ? {} : { 'X-Expose-Secrets': 'encrypted' }
  const { agent_settings } = await client.call('getSettings', { headers, signal })
  const servers = Object.entries(asRecord(agent_settings.mcp_config))
  return Object.fromEntries(servers.filter(([, server]) => isRecord(server))) as Record<
    string,
    McpServerInput
  >
}

/** Those that `run` and sessions give to their agents. */
export async function readAgentMcpServers(
  client: Client,
  signal: AbortSignal,
): Promise<Readonly<Record<string, McpServerInput>>> {
  return await listMcpServers(client, signal, 'sealed').catch((error: unknown) => {
    // A server without settings.
    if (error instanceof CallError && error.status === 404) return {}
    throw error
  })
}
