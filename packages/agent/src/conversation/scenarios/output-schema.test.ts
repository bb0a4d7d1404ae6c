import { afterAll, beforeAll, expect, test } from 'vitest'
import { finalResponse } from '../events/final-response.ts'
import { ConversationFixtures, FakeModel, type FakeTurn } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
})

const response_schema = {
  type: 'object',
  properties: {
    verdict: { type: 'string', enum: ['pass', 'fail'] },
    files: { type: 'array', items: { $ref: '#/$defs/file' } },
  },
  required: ['verdict'],
  additionalProperties: false,
  $defs: { file: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] } },
}
const good = { verdict: 'pass', files: [{ path: 'a.ts' }] }
const finish = (output: unknown): FakeTurn => ({ calls: [['finish', { output }]] })

async function run(turns: readonly FakeTurn[], agent: object = {}) {
  const model = new FakeModel(turns)
  const life = await fixtures.create({ model: model.open, agent: { ...agent }, request: { response_schema } })
  await life.sendAndWait('Judge it.')
  return { life, model, answer: await finalResponse(fixtures.storage.log, life.id) }
}

test('the model gets the schema with the finish tool, and its output is the answer as JSON', async () => {
  const { life, model, answer } = await run([finish(good)])
  const tool = model.requests[0]?.tools.find(({ name }) => name === 'finish')
  expect(tool?.parameters).toMatchObject({
    properties: { output: { properties: { files: { items: { $ref: '#/properties/output/$defs/file' } } } } },
    required: ['output'],
  })
  expect(life.status).toBe('finished')
  expect(JSON.parse(answer)).toEqual(good)
  const [action] = await life.eventsOfKind('ActionEvent')
  expect(action?.action).toEqual({ kind: 'FinishAction', message: JSON.stringify(good) })
})

test.each([
  ['a wrong value', finish({ verdict: 'maybe' }), 'verdict'],
  ['an unknown member', finish({ ...good, more: 1 }), 'more'],
  ['a missing member deep inside', finish({ ...good, files: [{}] }), 'files.0.path'],
  ['no output', { calls: [['finish', { message: 'Done.' }]] } satisfies FakeTurn, 'output'],
  ['a text', { text: 'It passes.' }, 'by calling `finish`'],
])('%s is told to the model, which answers again', async (_, turn, told) => {
  const { life, model, answer } = await run([turn, finish(good)])
  expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain(told)
  expect(life.status).toBe('finished')
  expect(JSON.parse(answer)).toEqual(good)
})

test('output as JSON text is understood, and so is a whole answer that is the object', async () => {
  expect(JSON.parse((await run([finish(JSON.stringify(good))])).answer)).toEqual(good)
  const { life, answer } = await run([{ text: JSON.stringify(good) }])
  expect(life.status).toBe('finished')
  expect(JSON.parse(answer)).toEqual(good)
})

test('answers that never fit end the run with their own error', async () => {
  const turns = ['a', 'b', 'c', 'd', 'e', 'f'].map((verdict) => finish({ verdict }))
  const { life, model } = await run(turns)
  expect(model.requests).toHaveLength(4)
  expect(life.status).toBe('error')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toMatchObject([{ code: 'OutputSchemaMismatch' }])
  const mixed = await run([
    { text: 'no' },
    finish({ verdict: 'x' }),
    { text: 'no' },
    { text: 'no' },
    finish(good),
  ])
  expect(mixed.model.requests).toHaveLength(4)
})

test('an agent without the finish tool gets it for its answer', async () => {
  const { answer } = await run([finish(good)], { include_default_tools: [] })
  expect(JSON.parse(answer)).toEqual(good)
})
