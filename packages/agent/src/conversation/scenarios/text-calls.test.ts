import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from '../../llm/models/open-model.ts'
import { ConversationFixtures, contentText } from '../testing/fixtures.ts'

interface ChatBody {
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
  readonly tools?: unknown
  readonly stream?: boolean
}

/** A chat server without tool calls: it refuses requests that name any, and wants roles in turn. */
const bodies: ChatBody[] = []
let replies: string[] = []
let server: Server
let fixtures: ConversationFixtures

function issueOf({ messages, tools }: ChatBody): string | undefined {
  if (tools !== undefined) return 'this model does not support tools'
  const roles = messages.map(({ role }) => role)
  if (JSON.stringify(messages).includes('"tool_calls"')) return 'unknown member tool_calls'
  const areInTurn = roles.every(
    (role, at) => role === (at === 0 ? 'system' : at % 2 === 1 ? 'user' : 'assistant'),
  )
  return areInTurn ? undefined : `roles must alternate: ${roles.join()}`
}

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
  server = createServer(async (request, response) => {
    if (request.method === 'GET') {
      response.writeHead(404).end()
      return
    }
    const body: ChatBody = JSON.parse(await text(request))
    bodies.push(body)
    const message = issueOf(body)
    if (message !== undefined) {
      response.writeHead(400, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { message } }))
      return
    }
    const content = replies.shift() ?? 'Nothing more.'
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const base = { id: `c${bodies.length}`, object: 'chat.completion.chunk', created: 1, model: 'm' }
    for (const piece of content.match(/.{1,7}/gs) ?? []) {
      const choices = [{ index: 0, delta: { role: 'assistant', content: piece }, finish_reason: null }]
      response.write(`data: ${JSON.stringify({ ...base, choices })}\n\n`)
    }
    const choices = [{ index: 0, delta: {}, finish_reason: 'stop' }]
    response.end(`data: ${JSON.stringify({ ...base, choices })}\n\ndata: [DONE]\n\n`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await fixtures[Symbol.asyncDispose]()
})

const call = (name: string, parameters: Readonly<Record<string, string>>) => {
  const list = Object.entries(parameters).map(
    ([key, value]) => `<parameter name="${key}">\n${value}\n</parameter>\n`,
  )
  return `<tool_call name="${name}">\n${list.join('')}</tool_call>`
}

test('a model without tool calls works by texts: calls, several at once, a wrong one, and the end', async () => {
  replies = [
    `I write it.\n\n${call('terminal', { command: 'printf "a\\nb\\n" > note.txt' })}`,
    `${call('terminal', { command: 'cat note.txt' })}\n${call('think', { thought: 'It is there.' })}`,
    call('terminal', { comand: 'ls', timeout: 'soon' }),
    call('finish', { message: 'Done: note.txt' }),
  ]
  const { port } = server.address() as AddressInfo
  const llm = {
    model: 'openai-compatible/plain',
    base_url: `http://127.0.0.1:${port}/v1`,
    api_key: 'k',
    native_tool_calling: false,
    stream: true,
    num_retries: 0,
  }
  const life = await fixtures.create({ model: openModel, agent: { llm, tools: [{ name: 'terminal' }] } })
  await life.sendAndWait('Write a note.')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toEqual([])
  expect(life.status).toBe('finished')
  expect(await readFile(join(life.workspace, 'note.txt'), 'utf8')).toBe('a\nb\n')
  const actions = await life.eventsOfKind('ActionEvent')
  expect(actions.map(({ tool_name }) => tool_name)).toEqual([
    'terminal',
    'terminal',
    'think',
    'terminal',
    'finish',
  ])
  expect(contentText(actions[0]?.thought)).toBe('I write it.')
  const observations = await life.eventsOfKind('ObservationEvent')
  expect(contentText(observations.at(-1)?.observation.content as object[])).toBe('Done: note.txt')
  // The model sees its calls and their results as texts, and each request begins like the last.
  expect(JSON.stringify(bodies.at(-1)?.messages)).toContain('<tool_result name=\\"terminal\\">')
  for (const [index, body] of bodies.entries()) {
    const before = bodies[index - 1]?.messages ?? []
    expect(JSON.stringify(body.messages.slice(0, before.length))).toBe(JSON.stringify(before))
  }
  const said = life.updates.map((update) => (update.kind === 'delta' ? (update.content ?? '') : '')).join('')
  expect(said.trim()).toBe('I write it.')
})
