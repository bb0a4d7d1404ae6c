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

test('the levels of risk are said once: by our prompt, or by each tool beside another prompt', async () => {
  const analyzer = { kind: 'LLMSecurityAnalyzer' } as const
  const asked = async (agent: object, isLater = false) => {
    const model = new FakeModel()
    const request = isLater ? {} : { security_analyzer: analyzer }
    const life = await fixtures.create({ model: model.open, agent: { tools, ...agent }, request })
    await life.sendAndWait('Hello')
    if (isLater) await life.conversation.setAnalyzer(analyzer)
    if (isLater) await life.sendAndWait('Hello')
    const last = model.requests.at(-1)
    const isInPrompt = JSON.stringify(last?.messages).includes('# Risk of a call')
    return [isInPrompt, JSON.stringify(last?.tools).split('reveal secrets').length - 1]
  }
  expect(await asked({})).toEqual([true, 0])
  expect(await asked({ system_prompt: 'Work.' })).toEqual([false, tools.length])
  // The prompt of an earlier moment does not speak of risk.
  expect(await asked({}, true)).toEqual([false, tools.length])
})
