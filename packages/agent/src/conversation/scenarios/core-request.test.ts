import { afterAll, beforeAll, expect, test } from 'vitest'
import { countTokens, countToolTokens } from '../../llm/tokens.ts'
import { ConversationFixtures, FakeModel } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
})

/** What o200k counts of these texts, as a share of our estimate, which is rather too high: measured 0.78. */
const shareOfEstimate = 0.78
const tools = ['terminal', 'file_editor', 'task_tracker'].map((name) => ({ name }))

test('system prompt and tools of the default set have at most 1,900 tokens', async () => {
  const model = new FakeModel()
  const life = await fixtures.create({ model: model.open, agent: { tools } })
  await life.sendAndWait('Hello')
  const [request] = model.requests
  const system = request?.messages.filter(({ role }) => role === 'system') ?? []
  const estimate = countTokens(system) + countToolTokens(request?.tools ?? [])
  expect(estimate).toBeGreaterThan(1_000)
  expect(Math.round(estimate * shareOfEstimate)).toBeLessThanOrEqual(1_900)
})

test('tools ask for the risk of a call from the next request on when an analyzer begins to read it', async () => {
  const model = new FakeModel()
  const life = await fixtures.create({ model: model.open, agent: { tools } })
  await life.sendAndWait('Hello')
  await life.conversation.setAnalyzer({ kind: 'PatternSecurityAnalyzer' })
  await life.sendAndWait('Hello')
  await life.conversation.setAnalyzer({ kind: 'LLMSecurityAnalyzer' })
  await life.sendAndWait('Hello')
  expect(model.requests.map((request) => JSON.stringify(request.tools).includes('security_risk'))).toEqual([
    false,
    false,
    true,
  ])
  expect(model.requests[1]?.tools, 'the same prefix').toBe(model.requests[0]?.tools)
})
