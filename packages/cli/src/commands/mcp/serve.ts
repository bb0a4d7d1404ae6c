import { once } from 'node:events'
import { Problem } from '@slipway/protocol/client'
import type { Secret } from '@slipway/shared/redaction'
import { sameOriginFetch } from '@slipway/shared/url'
import ownPackage from '../../../package.json' with { type: 'json' }

/**
 * Serves the MCP server of an agent server to the program that started this one, by standard input and
 * output: for clients that start programs and know no addresses. What a client may do depends on the key.
 * Ends with the input.
 */
export async function serveMcpCommand(
  { url, key }: { readonly url: string; readonly key: Secret | undefined },
  signal: AbortSignal,
): Promise<void> {
  const { Server } = await import('@modelcontextprotocol/server')
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio')
  const client = await connect(url, key)
  const options = { capabilities: { tools: {}, resources: {} }, instructions: client.getInstructions() ?? '' }
  const served = serveStdio(() => {
    const server = new Server({ name: 'slipway', version: ownPackage.version }, options)
    server.setRequestHandler('tools/list', ({ params }, { mcpReq }) => client.listTools(params, mcpReq))
    server.setRequestHandler('tools/call', ({ params }, { mcpReq }) => client.callTool(params, mcpReq))
    server.setRequestHandler('resources/list', ({ params }, { mcpReq }) =>
      client.listResources(params, mcpReq),
    )
    server.setRequestHandler('resources/templates/list', ({ params }, { mcpReq }) =>
      client.listResourceTemplates(params, mcpReq),
    )
    server.setRequestHandler('resources/read', ({ params }, { mcpReq }) =>
      client.readResource(params, mcpReq),
    )
    return server
  })
  try {
    await once(process.stdin, 'close', { signal })
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    await served.close()
    await client.close()
  }
}

async function connect(url: string, key: Secret | undefined) {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  const client = new Client(
    { name: 'slipway mcp serve', version: ownPackage.version },
    { versionNegotiation: { mode: 'auto' } },
  )
  const headers = key === undefined ? {} : { 'X-Session-API-Key': key.reveal() }
  const address = new URL(`${url.replace(/\/+$/, '')}/mcp`)
  const transport = new StreamableHTTPClientTransport(address, {
    requestInit: { headers },
    fetch: sameOriginFetch(),
  })
  await client.connect(transport).catch((cause: unknown) => {
    throw new Problem(
      'unavailable',
      `The MCP server of ${url} does not answer: ${cause instanceof Error ? cause.message : cause}. Its setting SLIPWAY_MCP_SERVER may be off, or its key another one.`,
    )
  })
  return client
}
