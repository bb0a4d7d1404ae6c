import { createInterface } from 'node:readline'

/** An MCP server on standard input and output with one tool, in place of servers that would be downloaded. */
const send = (id: unknown, result: object) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') {
    const { protocolVersion } = params
    send(id, { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'notes', version: '1' } })
  }
  if (method === 'tools/list') {
    const description = 'Reads the note.'
    send(id, { tools: [{ name: 'read_note', description, inputSchema: { type: 'object' } }] })
  }
  if (method === 'tools/call') send(id, { content: [{ type: 'text', text: 'buy milk' }] })
})
