import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { scripted } from '../support/agent-driver.ts'
import { openWire, prove, proveWithKey } from './wire-server.ts'

const wire = openWire()
const header = 'x-openhands-serverconversation-id'

/** The name of a model that plays a script. */
async function model(script: readonly unknown[]): Promise<string> {
  const name = `wire-${randomUUID().slice(0, 8)}`
  await wire.must('POST', `/api/profiles/${name}`, { body: { llm: scripted(script) } })
  return `openhands_${name}`
}
const chat = (body: object, headers: Record<string, string> = {}) =>
  wire.ask('POST', '/v1/chat/completions', { body, headers })
const user = (content: string) => [{ role: 'user', content }]

prove('GET /v1/models', 'has one for each profile', async () => {
  const id = await model([])
  expect(await wire.must('GET', '/v1/models')).toMatchObject({
    object: 'list',
    data: expect.arrayContaining([expect.objectContaining({ id, object: 'model' })]),
  })
})

proveWithKey('GET /v1/models', 'takes the key in either form, and is closed without', async (key) => {
  const bearer = { isAnonymous: true, headers: { authorization: `Bearer ${key}` } }
  expect(await wire.status('GET', '/v1/models', bearer)).toBe(200)
  expect(await wire.status('GET', '/v1/models', { isAnonymous: true })).toBe(401)
})

prove(
  'POST /v1/chat/completions',
  'answers, and goes on with the conversation that the header names',
  async () => {
    const name = await model([{ text: 'One.' }, { text: 'Two.' }])
    const first = await chat({ model: name, messages: user('Count.') })
    expect(first).toMatchObject({
      status: 200,
      body: {
        object: 'chat.completion',
        choices: [{ message: { role: 'assistant', content: 'One.' }, finish_reason: 'stop' }],
      },
    })
    const id = String(first.headers.get(header))
    expect(await wire.status('GET', `/api/conversations/${id}`)).toBe(200)
    const second = await chat({ model: name, messages: user('Go on.') }, { [header]: id })
    expect(second.body).toMatchObject({ choices: [{ message: { content: 'Two.' } }] })
    expect(second.headers.get(header)).toBe(id)
  },
)

prove('POST /v1/chat/completions', 'streams chunks and ends with DONE', async () => {
  const name = await model([{ text: 'Word by word.' }])
  const { status, type, body } = await chat({ model: name, messages: user('Speak.'), stream: true })
  expect([status, type.startsWith('text/event-stream')]).toEqual([200, true])
  const lines = String(body)
    .split('\n\n')
    .filter((line) => line.startsWith('data: '))
  expect(lines.at(-1)).toBe('data: [DONE]')
  const chunks = lines.slice(0, -1).map((line) => JSON.parse(line.slice(6)))
  expect(chunks.map((chunk) => chunk.choices?.[0]?.delta?.content ?? '').join('')).toBe('Word by word.')
})

prove('POST /v1/chat/completions', 'refuses unknown models and what is no request', async () => {
  expect(await chat({ model: 'openhands_none-such', messages: user('x') })).toMatchObject({ status: 404 })
  expect([400, 422]).toContain((await chat({ model: 'x' })).status)
})
