import { llm, metaProfile, Problem } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, contentText, FakeModel, type FakeTurn } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const classes = [
  { description: 'short questions', model: 'small' },
  { description: 'long work', model: 'large' },
]
const byClass = { classifier_model: 'judge', classes }
const byName = {
  classifier_model: 'judge',
  prompt_template: 'Of:\n{{ model_table }}\nfor: {{instance_text}} {{ constructor }}',
  model_table: 'small, large',
}

/** A conversation that routes once; the saved rule is `saved`, the copy in its tool `copy`. */
async function route(options: {
  readonly saved?: object
  readonly copy?: object
  readonly answer: FakeTurn
  readonly turns?: readonly FakeTurn[]
}) {
  const { saved, copy, answer, turns = [{ calls: [['route_task_to_model', {}]] }] } = options
  const model = new FakeModel(turns, { sides: [answer] })
  const params = { active_meta_profile: 'rule', meta_profile: copy ?? null }
  const life = await fixtures.create({
    model: model.open,
    agent: { tools: [{ name: 'ClassifyAndSwitchLLMTool', params }] },
    deps: {
      findMetaProfile: async (name) =>
        saved === undefined || name !== 'rule' ? undefined : metaProfile.parse(saved),
      findProfile: async (name) => {
        if (name === 'broken') throw new Problem('bad_request', 'it is damaged')
        if (!['judge', 'small', 'large'].includes(name)) return undefined
        return llm.parse({ model: `openai/${name}`, api_key: `sk-canary-${name}` })
      },
    },
  })
  await life.sendAndWait('Refactor everything.')
  const [event] = await life.eventsOfKind('ObservationEvent')
  const observation = event?.observation as unknown as Readonly<Record<string, unknown>>
  return { life, model, observation, text: contentText(observation.content as never) }
}

test('the class of the task decides which model continues, and the use of the classifier is counted', async () => {
  const { life, model, observation } = await route({ saved: byClass, answer: { text: 'It is 2.' } })
  expect(observation).toMatchObject({
    kind: 'ClassifyAndSwitchLLMObservation',
    is_error: false,
    chosen_class: 'long work',
    model: 'large',
    active_model: 'openai/large',
  })
  const question = JSON.stringify(model.sideRequests[0]?.messages)
  for (const part of ['1. short questions', '2. long work', 'Refactor everything.'])
    expect(question).toContain(part)
  expect(life.settings.agent.llm).toMatchObject({ model: 'openai/large', usage_id: 'profile:large' })
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  expect(updates.find(({ key }) => key === 'agent')?.value).toMatchObject({ llm: { model: 'openai/large' } })
  const usage = life.conversation.stats.snapshot() as object as { usage_to_metrics: object }
  expect(Object.keys(usage.usage_to_metrics)).toEqual(
    expect.arrayContaining(['classifier:judge', 'profile:large']),
  )
  expect(JSON.stringify(await life.events())).not.toContain('sk-canary')
  expect(life.status).toBe('finished')
})

test('the classifier may answer a template with the name of a profile', async () => {
  const answer = { text: '```json\n{"model": "small"}\n```' }
  const { model, observation } = await route({ saved: byName, answer })
  expect(observation).toMatchObject({ chosen_class: 'model: small', model: 'small', is_error: false })
  const question = contentText(model.sideRequests[0]?.messages.at(-1)?.content ?? [])
  expect(question).toContain('Of:\nsmall, large\nfor: user: Refactor everything. {{ constructor }}')
  expect(await route({ saved: byName, answer: { text: ' large\n' } })).toMatchObject({
    observation: { model: 'large' },
  })
})

test.each([
  ['0', {}, undefined],
  ['none of them', {}, undefined],
  ['7', { default_model: 'small' }, 'small'],
])('an answer that fits no class (%s) keeps the model or takes the default', async (text, more, chosen) => {
  const { life, observation } = await route({ saved: { ...byClass, ...more }, answer: { text } })
  const { is_error, chosen_class, model } = observation
  expect([is_error, chosen_class, model]).toEqual([false, undefined, chosen])
  expect(life.settings.agent.llm.model === observation.active_model).toBe(true)
})

test('the saved rule counts; the copy is used when it is gone', async () => {
  const copy = { classifier_model: 'judge', classes: [{ description: 'any', model: 'small' }] }
  const first = await route({ saved: byClass, copy, answer: { text: '1' } })
  expect(first.observation).toMatchObject({ chosen_class: 'short questions' })
  const second = await route({ copy, answer: { text: '1' } })
  expect(second.observation).toMatchObject({ chosen_class: 'any', model: 'small' })
})

test.each([
  ['no rule', undefined, {}, "There is no meta-profile 'rule'"],
  ['no classifier', { ...byClass, classifier_model: 'gone' }, {}, "Failed to load classifier profile 'gone'"],
  ['a damaged one', { ...byClass, classifier_model: 'broken' }, {}, 'it is damaged'],
  ['no answer', byClass, { failure: 'LLMRateLimitError' as const }, 'LLMRateLimitError'],
  [
    'no such profile',
    { ...byClass, classes: [{ description: 'any', model: 'gone' }] },
    { text: '1' },
    "LLM profile 'gone'",
  ],
])('%s is an error of the tool, and the model stays', async (_, saved, answer, reason) => {
  const { life, observation, text } = await route({ ...(saved && { saved }), answer })
  expect(observation).toMatchObject({ kind: 'ClassifyAndSwitchLLMObservation', is_error: true })
  expect(text).toContain(reason)
  expect(life.settings.agent.llm.usage_id).not.toMatch(/^profile:/)
  expect(life.status).toBe('finished')
})
