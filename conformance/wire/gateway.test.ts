import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { scriptedModel } from '../support/agent-driver.ts'
import { openWireServer, wireCase, wireCaseWithKey } from './wire-server.ts'

const wire = openWireServer()
const header = 'x-openhands-serverconversation-id'

/** The name of a scripted model. */
async function createModel(script: readonly unknown[]): Promise<string> {
  const name = `wire-${randomUUID().slice(0, 8)}`
  await wire.requestOrThrow('POST', `/api/profiles/${name}`, { body: { llm: scriptedModel(script) } })
  return `openhands_${name}`
}
const completeChat = (body: object, headers: Record<string, string> = {}) =>
  wire.request('POST', '/v1/chat/completions', { body, headers })
const userMessages = (content: string) => [{ role: 'user', content }]

wireCase('GET /v1/models', 'has one for each profile', async () => {
  const id = await createModel([])
  expect(await wire.requestOrThrow('GET', '/v1/models')).toMatchObject({
    object: 'list',
    data: expect.arrayContaining([expect.objectContaining({ id, object: 'model' })]),
  })
})

wireCaseWithKey(
  'GET /v1/models',
  'accepts the key in either header, and refuses requests without',
  async (key) => {
    const bearer = { isAnonymous: true, headers: { authorization: `Bearer ${key}` } }
    expect(await wire.requestStatus('GET', '/v1/models', bearer)).toBe(200)
    expect(await wire.requestStatus('GET', '/v1/models', { isAnonymous: true })).toBe(401)
  },
)

wireCase(
  'POST /v1/chat/completions',
  'replies, and continues the conversation that the header names',
  async () => {
    const name = await createModel([{ text: 'One.' }, { text: 'Two.' }])
    const first = await completeChat({ model: name, messages: userMessages('Count.') })
    expect(first).toMatchObject({
      status: 200,
      body: {
        object: 'chat.completion',
        choices: [{ message: { role: 'assistant', content: 'One.' }, finish_reason: 'stop' }],
      },
    })
    const id = String(first.headers.get(header))
    expect(await wire.requestStatus('GET', `/api/conversations/${id}`)).toBe(200)
    const second = await completeChat({ model: name, messages: userMessages('Continue.') }, { [header]: id })
    expect(second.body).toMatchObject({ choices: [{ message: { content: 'Two.' } }] })
    expect(second.headers.get(header)).toBe(id)
  },
)

wireCase('POST /v1/chat/completions', 'streams chunks and ends with DONE', async () => {
  const name = await createModel([{ text: 'Word by word.' }])
  const { status, type, body } = await completeChat({
    model: name,
    messages: userMessages('Speak.'),
    stream: true,
  })
  expect([status, type.startsWith('text/event-stream')]).toEqual([200, true])
  const lines = String(body)
    .split('\n\n')
    .filter((line) => line.startsWith('data: '))
  expect(lines.at(-1)).toBe('data: [DONE]')
  const chunks = lines.slice(0, -1).map((line) => JSON.parse(line.slice(6)))
  expect(chunks.map((chunk) => chunk.choices?.[0]?.delta?.content ?? '').join('')).toBe('Word by word.')
})

wireCase('POST /v1/chat/completions', 'refuses unknown models and invalid requests', async () => {
  expect(await completeChat({ model: 'openhands_none-such', messages: userMessages('x') })).toMatchObject({
    status: 404,
  })
  expect([400, 422]).toContain((await completeChat({ model: 'x' })).status)
})

wireCase('POST /v1/responses', 'replies with an output text', async () => {
  const model = await createModel([{ text: 'One.' }])
  const { status, body } = await wire.request('POST', '/v1/responses', { body: { model, input: 'Count.' } })
  expect([status, body]).toMatchObject([
    200,
    { object: 'response', output: [{ content: [{ type: 'output_text', text: 'One.' }] }] },
  ])
})
