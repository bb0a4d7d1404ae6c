import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from '../../llm/models/open-model.ts'
import { RefusingServer } from '../../llm/refusals/testing/refusing-server.ts'
import { ConversationFixtures } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
let server: RefusingServer

beforeAll(async () => {
  ;[fixtures, server] = await Promise.all([ConversationFixtures.open(), RefusingServer.open()])
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

const refusal = (message: string) => [400, { error: { message, type: 'invalid_request_error' } }] as const

function create() {
  const llm = { model: 'openai-compatible/m', base_url: `${server.url}/v1`, temperature: 0.5, num_retries: 0 }
  server.requests = []
  return fixtures.create({ model: openModel, agent: { llm } })
}

test('what a server refuses is left out, told with its place, and not sent again after a restart', async () => {
  server.refuse = (body) => {
    if ('temperature' in body) return refusal("Unsupported parameter: 'temperature'")
    return JSON.stringify(body).includes('bad words') ? refusal('Invalid request') : undefined
  }
  const life = await create()
  await life.sendAndWait('hello')
  await life.sendAndWait('these are bad words')
  // The user's last message is shortened and never left out, so this one cannot be sent.
  expect(life.status).toBe('error')
  server.refuse = (body) => ('temperature' in body ? refusal('temperature again') : undefined)
  await life.reopen()
  server.requests = []
  await life.sendAndWait('once more')
  expect(life.status).toBe('finished')
  expect(server.requests).toHaveLength(1)
  const [told, ...more] = (await life.eventsOfKind('ConversationStateUpdateEvent')).filter(
    ({ key }) => key === 'left_out',
  )
  expect(more).toEqual([])
  expect(told?.value).toMatchObject({
    model: `openai-compatible/m at ${new URL(server.url).host}`,
    kind: 'parameter',
    name: 'temperature',
    reason: expect.stringContaining("Unsupported parameter: 'temperature'"),
  })
})

test('a message that its server refuses later is left out, its event is named, and the next one is answered', async () => {
  server.refuse = () => undefined
  const life = await create()
  await life.sendAndWait('an odd message')
  server.refuse = (body) =>
    JSON.stringify(body).includes('an odd message') ? refusal('Invalid request') : undefined
  await life.sendAndWait('And now?')
  expect(life.status).toBe('finished')
  const told = (await life.eventsOfKind('ConversationStateUpdateEvent')).find(({ key }) => key === 'left_out')
  const [odd] = await life.eventsOfKind('MessageEvent')
  expect(told?.value).toMatchObject({ kind: 'message', event_id: odd?.id })
  server.requests = []
  await life.reopen()
  await life.sendAndWait('And then?')
  expect(life.status).toBe('finished')
  expect(server.requests).toHaveLength(1)
})

test('the last message of the user is shortened where it is refused, and stays so later', async () => {
  const mark = 'odd signs'
  server.refuse = (body) => (JSON.stringify(body).includes(mark) ? refusal('Invalid request') : undefined)
  const life = await create()
  await life.sendAndWait(`Find the fault.${' word'.repeat(1000)} ${mark} ${' word'.repeat(1000)}`)
  expect(life.status).toBe('finished')
  server.requests = []
  await life.reopen()
  await life.sendAndWait('And now?')
  expect(life.status).toBe('finished')
  expect(server.requests).toHaveLength(1)
  expect(server.requests[0]).toContain('Find the fault.')
  expect(server.requests[0]).toContain('characters left out')
})

test('a first message that is larger than the window that a server tells is shortened before it is sent', async () => {
  server.refuse = () => undefined
  server.maxModelLength = 8192
  const life = await create()
  await life.sendAndWait('word '.repeat(20_000))
  server.maxModelLength = undefined
  expect(life.status).toBe('finished')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toEqual([])
  expect(server.requests).toHaveLength(1)
  expect(server.requests[0]?.length).toBeLessThan(60_000)
})
