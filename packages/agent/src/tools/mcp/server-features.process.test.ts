import { expect, test } from 'vitest'
import type { AskUser } from '../core/server-question.ts'
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
const ask = (name, params) => server.registerTool(name, {}, async () => say(JSON.stringify(await server.server.elicitInput(params))))
const form = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required })
ask('ask', { message: 'Who, hunter2hunter2?', requestedSchema: form({ name: { type: 'string' }, age: { type: 'integer', default: 3 } }, ['name']) })
ask('ask_secret', { message: 'Sign in', requestedSchema: form({ value: { type: 'string', title: 'API key' } }) })
ask('ask_page', { mode: 'url', message: 'Sign in there', elicitationId: 'e1', url: 'https://example.test/sign?in=1' })
ask('ask_file', { mode: 'url', message: 'Look', elicitationId: 'e2', url: 'file:///etc/passwd' })
await server.connect(new StdioServerTransport())
`

/** A server that declares resources and prompts and lists neither. */
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

test('a server with resources has a tool that lists and one that reads; a server without resources has neither tool', async () => {
  await using trial = await McpFixtures.open(programs)
  const { mcp, call } = await trial.openServers({
    rich: trial.program('rich.mjs'),
    bare: trial.program('bare.mjs'),
  })
  expect(mcp.tools.map(({ name }) => name)).toEqual([
    ...['rich_stalls', 'rich_ask', 'rich_ask_secret', 'rich_ask_page', 'rich_ask_file'],
    ...['rich_list_resources', 'rich_read_resource'],
    'bare_hello',
  ])
  for (const tool of mcp.tools.slice(5, 7))
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

test('a server asks the user by name; forms for secrets and other addresses are declined without a question', async () => {
  await using trial = await McpFixtures.open(programs)
  const { workspace, secrets, root: directory } = trial
  const asked: unknown[] = []
  const askUser: AskUser = async (question) => {
    asked.push(question)
    return question.address === undefined
      ? { action: 'accept', content: { name: 'Ada' } }
      : { action: 'cancel' }
  }
  const context = { workspace, secrets, directory, askUser }
  const { call } = await trial.openServers({ rich: trial.program('rich.mjs') }, { context })
  expect((await call('ask')).texts[1]).toBe('{"action":"accept","content":{"name":"Ada"}}')
  expect((await call('ask_secret')).texts[1]).toContain('"decline"')
  expect((await call('ask_page')).texts[1]).toContain('"cancel"')
  expect((await call('ask_file')).texts[1]).toContain('"decline"')
  expect(asked).toMatchObject([
    {
      server: 'rich',
      message: 'Who, hunter2hunter2?',
      fields: { name: { type: 'string', isRequired: true }, age: { default: 3, isRequired: false } },
    },
    { server: 'rich', message: 'Sign in there', address: 'https://example.test/sign?in=1' },
  ])
})

test('a server learns that no one can be asked', async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers({ rich: trial.program('rich.mjs') })
  const { is_error, text } = await call('ask')
  expect([is_error, text]).toEqual([true, expect.stringMatching(/does not support .*elicitation/)])
})
