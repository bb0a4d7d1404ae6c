import { expect, test } from 'vitest'
import { McpFixtures } from './testing/mcp-fixtures.ts'

const sdk = (path: string) => JSON.stringify(import.meta.resolve(`@modelcontextprotocol/sdk/${path}`))

/** A server made with the SDK that has instructions, resources and progress. */
const program = `
import { McpServer, ResourceTemplate } from ${sdk('server/mcp.js')}
import { StdioServerTransport } from ${sdk('server/stdio.js')}
const server = new McpServer({ name: 'rich', version: '1' }, { instructions: 'Read note://one first, with hunter2hunter2.' })
const say = (text) => ({ content: [{ type: 'text', text }] })
const contents = (uri, text) => ({ contents: [{ uri: uri.href, text }] })
server.registerResource('note', 'note://one', { description: 'A note', mimeType: 'text/plain' }, (uri) => contents(uri, 'buy milk'))
server.registerResource('day', new ResourceTemplate('day://{date}', { list: undefined }), {}, (uri, { date }) => contents(uri, 'On ' + date))
server.registerTool('stalls', {}, async ({ sendNotification, _meta }) => {
  const params = { progressToken: _meta.progressToken, progress: 3, total: 10, message: 'indexing hunter2hunter2' }
  await sendNotification({ method: 'notifications/progress', params })
  await new Promise(() => {})
})
await server.connect(new StdioServerTransport())
`

/** A server that declares resources and prompts and has none. */
const bareProgram = `
import { McpServer } from ${sdk('server/mcp.js')}
import { StdioServerTransport } from ${sdk('server/stdio.js')}
const server = new McpServer({ name: 'bare', version: '1' }, { capabilities: { resources: {}, prompts: {} } })
server.registerTool('hello', {}, () => ({ content: [{ type: 'text', text: 'hello' }] }))
await server.connect(new StdioServerTransport())
`

const programs = { 'rich.mjs': program, 'bare.mjs': bareProgram }

test('instructions of servers are there without secrets', async () => {
  await using trial = await McpFixtures.open(programs)
  const { mcp } = await trial.openServers({
    rich: trial.program('rich.mjs'),
    bare: trial.program('bare.mjs'),
  })
  expect([...mcp.instructions]).toEqual([['rich', 'Read note://one first, with <secret-hidden>.']])
})

test('a server with resources has a tool that lists and one that reads; one without has none', async () => {
  await using trial = await McpFixtures.open(programs)
  const { mcp, call } = await trial.openServers({
    rich: trial.program('rich.mjs'),
    bare: trial.program('bare.mjs'),
  })
  expect(mcp.tools.map(({ name }) => name)).toEqual([
    ...['rich_stalls', 'rich_list_resources', 'rich_read_resource'],
    'bare_hello',
  ])
  const [, lists, reads] = mcp.tools
  for (const tool of [lists, reads])
    expect(tool?.definition.annotations).toMatchObject({ readOnlyHint: true })
  expect((await call('rich_list_resources')).texts[1]).toBe(
    'note://one (note; text/plain; A note)\nday://{date} (day)',
  )
  expect((await call('rich_read_resource', { uri: 'note://one' })).texts[1]).toBe(
    '[Resource note://one]\nbuy milk',
  )
  expect((await call('rich_read_resource', { uri: 'day://monday' })).texts[1]).toContain('On monday')
  const missing = await call('rich_read_resource', { uri: 'note://two' })
  expect([missing.is_error, missing.text]).toEqual([true, expect.stringContaining('note://two not found')])
  expect((await call('rich_read_resource')).text).toBe('The uri is missing.')
})

test('a call that ends without an answer tells its last progress', async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers({ rich: trial.program('rich.mjs') }, { callMs: 3000 })
  expect((await call('stalls')).text).toBe(
    'The tool gave no answer, and no progress for 3 seconds. Its last progress: 3 of 10, indexing <secret-hidden>.',
  )
})
