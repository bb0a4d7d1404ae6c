import { afterAll, beforeAll, expect, test } from 'vitest'
import { answerModern } from '../../tools/mcp/testing/modern-server.ts'
import { ConversationFixtures, FakeModel } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

/** A server of the newer era, and one of the older that has the same prompts and no tools. */
const modern = `
${answerModern}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const answer = answerModern(JSON.parse(line))
  if (answer !== undefined) console.log(JSON.stringify(answer))
})`
const older = `
${answerModern}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  const write = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', id, ...message }))
  if (method === 'initialize')
    return write({ result: { protocolVersion: params.protocolVersion, capabilities: { prompts: {} }, serverInfo: { name: 's', version: '1' } } })
  if (method === 'server/discover') return write({ error: { code: -32601, message: 'Method not found' } })
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
  const answer = answerModern({ id, method, params: { ...params, _meta } })
  if (answer !== undefined) console.log(JSON.stringify(answer))
})`
const mcp_config = {
  new: { command: process.execPath, args: ['-e', modern] },
  old: { command: process.execPath, args: ['-e', older] },
}

const { signal } = new AbortController()

test('prompts of servers of both eras are listed, and a message starts one', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open, agent: { mcp_config } })
  const prompts = await life.conversation.listPrompts(signal)
  expect(prompts.map(({ server, name }) => `${server}:${name}`)).toEqual(['new:review', 'old:review'])
  expect(prompts[0]?.arguments.map(({ name, required }) => [name, required])).toEqual([
    ['file', true],
    ['focus', false],
  ])
  for (const [message, words] of [
    ['/new:review a.ts leaks and races', 'Review a.ts for leaks and races.'],
    ['/old:review focus=names "my file.ts"', 'Review my file.ts for names.'],
  ] as const) {
    await life.sendAndWait(message)
    expect(life.status).toBe('finished')
    const sent = (await life.eventsOfKind('MessageEvent')).filter(({ source }) => source === 'user').at(-1)
    expect(sent?.llm_message.content).toMatchObject([{ text: message }])
    expect(sent?.extended_content).toMatchObject([{ text: expect.stringContaining(words) }])
    expect(JSON.stringify(player.requests.at(-1)?.messages)).toContain(words)
  }
})

test('a prompt that does not exist, and one without its argument, are refused in words', async () => {
  const life = await fixtures.create({ model: new FakeModel().open, agent: { mcp_config } })
  await expect(life.send('/new:revue a.ts')).rejects.toThrow(
    'The MCP server new has no prompt "revue". It has: /new:review FILE [FOCUS]',
  )
  await expect(life.send('/new:review')).rejects.toThrow(
    'The prompt needs file. Write /new:review FILE [FOCUS]',
  )
  expect(await life.eventsOfKind('MessageEvent')).toEqual([])
  await life.send('/other:review a.ts')
  expect(await life.eventsOfKind('MessageEvent')).toHaveLength(1)
})
