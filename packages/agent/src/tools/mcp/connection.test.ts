import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mcpServer } from '@slipway/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { McpConnection } from './connection.ts'

/** A server whose pages of tools are these; the cursor of a page is its number. */
async function openServer(pages: readonly (readonly string[])[]) {
  const listed: unknown[] = []
  const answer = (method: string, params: Record<string, unknown> = {}) => {
    if (method === 'initialize') {
      const { protocolVersion } = params
      return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'paged', version: '1' } }
    }
    // The question of the newer protocol, which this server does not know.
    if (method !== 'tools/list') return undefined
    listed.push(params)
    const page = Number(params.cursor ?? 0)
    const tools = (pages[page] ?? []).map((name) => ({ name, inputSchema: { type: 'object' } }))
    return { tools, ...(page + 1 < pages.length ? { nextCursor: String(page + 1) } : {}) }
  }
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method, params } = JSON.parse(Buffer.concat(await Array.fromAsync(request)).toString())
    if (id === undefined) return void response.writeHead(202).end()
    response.setHeader('content-type', 'application/json')
    const result = answer(method, params)
    const error = { code: -32601, message: `Method not found: ${method}` }
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(result === undefined ? { error } : { result }) }))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, listed }
}

test('all pages of tools are listed, each after the cursor of the one before', async () => {
  const { url, listed } = await openServer([['a', 'b'], ['c'], ['d']])
  await using workspace = await Workspace.open({ directory: import.meta.dirname, env: {} })
  const context = { workspace, secrets: new Secrets({}), directory: '/nonexistent' }
  const server = mcpServer.parse({ url, transport: 'http' })
  const times = { startMs: 20_000, callMs: 20_000 }
  const connection = new McpConnection('paged', { server, context, ...times, onChange: () => {} })
  onTestFinished(() => connection.close())
  expect(await connection.start(new AbortController().signal)).toEqual([])
  expect(connection.tools.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd'])
  expect(listed).toEqual([{}, { cursor: '1' }, { cursor: '2' }])
})
