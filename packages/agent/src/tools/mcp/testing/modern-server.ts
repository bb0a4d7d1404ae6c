/**
 * The answer of a server of the revision 2026-07-28 alone to a JSON-RPC request; undefined for a
 * notification. Self-contained: its text is also written into programs.
 */
// biome-ignore lint/suspicious/noExplicitAny: requests of any form
export function answerModern(request: any): object | undefined {
  const { id, method, params } = request
  if (id === undefined) return undefined
  const revision = params?._meta?.['io.modelcontextprotocol/protocolVersion']
  const result = (members: object) => ({
    jsonrpc: '2.0',
    id,
    result: {
      resultType: 'complete',
      ...members,
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'modern', version: '1.0.0' } },
    },
  })
  const error = (code: number, message: string, data?: object) => ({
    jsonrpc: '2.0',
    id,
    error: { code, message, data },
  })
  const text = (words: string) => result({ content: [{ type: 'text', text: words }] })
  if (revision !== '2026-07-28')
    return error(-32022, 'Unsupported protocol version', {
      supported: ['2026-07-28'],
      requested: revision ?? params?.protocolVersion,
    })
  if (method === 'server/discover')
    return result({
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: { listChanged: true }, prompts: {} },
      instructions: 'Greet first.',
      ttlMs: 0,
      cacheScope: 'private',
    })
  if (method === 'tools/list')
    return result({
      tools: [
        {
          name: 'greet',
          description: 'Greets',
          inputSchema: { type: 'object', properties: { who: { type: 'string' } } },
          // Answers do not follow it.
          outputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
        },
        { name: 'ask', description: 'Asks back', inputSchema: { type: 'object' } },
      ],
      ttlMs: 60_000,
      cacheScope: 'private',
    })
  if (method === 'prompts/list')
    return result({
      prompts: [{ name: 'review', arguments: [{ name: 'file', required: true }, { name: 'focus' }] }],
      ttlMs: 60_000,
      cacheScope: 'private',
    })
  if (method === 'prompts/get') {
    const words = { type: 'text', text: `Review ${params.arguments?.file} for ${params.arguments?.focus}.` }
    return result({ messages: [{ role: 'user', content: words }] })
  }
  if (method === 'tools/call' && params.name === 'ask') {
    const answer = params.inputResponses?.name
    if (answer !== undefined)
      return text(`${answer.action}: ${answer.content?.name} (${params.requestState})`)
    const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
    const form = { mode: 'form', message: 'Your name?', requestedSchema: schema }
    return result({
      resultType: 'input_required',
      inputRequests: { name: { method: 'elicitation/create', params: form } },
      requestState: 'state-1',
    })
  }
  if (method === 'tools/call') return text(`Hello ${params.arguments?.who}`)
  return error(-32601, `Method not found: ${method}`)
}
