import type { McpHttpHandler } from '@modelcontextprotocol/server'
import type { Handlers, Reply } from '@slipway/http'
import type { mcpServerRoutes } from '@slipway/protocol'

/** Headers that the SDK reads; the key is not among them. */
const passedHeaders = [
  'accept',
  'content-type',
  'mcp-protocol-version',
  'mcp-method',
  'mcp-name',
  'mcp-session-id',
]

/** The SDK behind the route: `caller` reaches the tools as `authInfo.extra`. */
export function mcpServerHandlers(
  open: () => Promise<Pick<McpHttpHandler, 'fetch'>>,
): Handlers<typeof mcpServerRoutes> {
  return {
    async serveMcp({ header, rawBody, signal, caller }) {
      const { fetch } = await open()
      const headers = passedHeaders.flatMap((name): [string, string][] => {
        const value = header(name)
        return value === undefined ? [] : [[name, value]]
      })
      const request = new Request('http://localhost/mcp', {
        method: 'POST',
        headers,
        body: new Uint8Array(rawBody),
        signal,
      })
      const authInfo = { token: '', clientId: '', scopes: [], extra: { caller } }
      return await toReply(await fetch(request, { authInfo }))
    },
  }
}

async function toReply({ status, headers, body }: Response): Promise<Reply> {
  const contentType = headers.get('content-type') ?? 'application/json'
  const own = Object.fromEntries([...headers].filter(([name]) => !/^content-(type|length)$/.test(name)))
  if (body !== null && contentType.startsWith('text/event-stream'))
    return { status, headers: own, contentType, chunks: chunksOf(body), isEndless: true }
  const bytes = body === null ? Buffer.alloc(0) : Buffer.concat(await Array.fromAsync(chunksOf(body)))
  return { status, headers: own, contentType, bytes }
}

async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const chunk of body) yield Buffer.from(chunk)
}
