import { expect } from 'vitest'
import { openWireServer, unknownId, wireCase } from './wire-server.ts'

const wire = openWireServer()

/** An MCP server over standard input and output, with one tool. */
const mcpServerScript = `
process.stdin.setEncoding('utf8')
let rest = ''
process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\\n')
  rest = lines.pop()
  for (const line of lines) if (line.trim() !== '') answer(JSON.parse(line))
})
const tool = { name: 'shout', description: 'Shouts.', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }
function answer({ id, method, params }) {
  if (id === undefined) return
  const results = {
    initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'wire', version: '1' } },
    'tools/list': { tools: [tool] },
    'tools/call': { content: [{ type: 'text', text: String(params?.arguments?.text).toUpperCase() + process.env.WIRE_MCP }] },
  }
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} }) + '\\n')
}
`

wireCase('POST /api/mcp/test', 'connects to a program, lists its tools and calls one', async () => {
  const file = `${wire.directory}/server.cjs`
  await wire.upload(file, mcpServerScript)
  const server = { type: 'stdio', command: process.execPath, args: [file], env: { WIRE_MCP: '!' } }
  const body = await wire.requestOrThrow('POST', '/api/mcp/test', {
    body: { name: 'wire', server, timeout: 20, tool_call: { name: 'shout', arguments: { text: 'hi' } } },
  })
  expect(body).toMatchObject({ ok: true, tools: ['shout'], tool_result: { is_error: false, text: 'HI!' } })
  expect(body).not.toHaveProperty('error')
})

wireCase('POST /api/mcp/test', 'returns 200 with the error, and 422 for an invalid request', async () => {
  const failing = [
    { type: 'stdio', command: '/nothing/there', args: [], env: { TOKEN: 'mcp-canary' } },
    { type: 'http', url: 'http://127.0.0.1:9/mcp', headers: { authorization: 'mcp-canary' } },
  ]
  for (const server of failing) {
    const { status, body } = await wire.request('POST', '/api/mcp/test', { body: { server, timeout: 5 } })
    expect([status, body]).toEqual([200, expect.objectContaining({ ok: false, error: expect.any(String) })])
    expect(body).toMatchObject({ error_kind: expect.stringMatching(/^(timeout|connection|unknown)$/) })
    expect(JSON.stringify(body)).not.toContain('mcp-canary')
  }
  const server = failing[0]
  for (const body of [
    {},
    { server: 5 },
    { server, timeout: 0 },
    { server, timeout: 121 },
    { server, name: '' },
  ])
    expect([body, await wire.requestStatus('POST', '/api/mcp/test', { body })]).toEqual([body, 422])
})

wireCase('POST /api/mcp/oauth/start', 'returns 200 with a job or with the error', async () => {
  const server = { type: 'http', url: 'http://127.0.0.1:9/mcp', auth: { strategy: 'oauth2' } }
  const body = await wire.requestOrThrow('POST', '/api/mcp/oauth/start', { body: { server, timeout: 5 } })
  expect(body).toHaveProperty('ok', expect.any(Boolean))
})

wireCase('GET /api/mcp/oauth/status/{job}', 'is 404 for an unknown job, or not ok', async () => {
  const { status, body } = await wire.request('GET', `/api/mcp/oauth/status/${unknownId}`)
  if (status === 200) expect(body).toMatchObject({ ok: false })
  else expect(status).toBe(404)
})

wireCase('POST /api/mcp/oauth/callback/{job}', 'is 404 for an unknown job, or not ok', async () => {
  const { status, body } = await wire.request('POST', `/api/mcp/oauth/callback/${unknownId}`, {
    body: { callback_url: 'http://127.0.0.1/?code=x' },
  })
  if (status === 200) expect(body).toMatchObject({ ok: false })
  else expect(status).toBe(404)
})
