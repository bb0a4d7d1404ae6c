import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from '../../llm/models/open-model.ts'
import { ConversationFixtures, waitUntil } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

test('every reply of a model has a completion log with its usage id, also beside the agent loop', async () => {
  const side = (text: string) => ({ text, side: true })
  const script = [
    { text: 'One.', delay_ms: 50 },
    { text: 'Two.' },
    { text: 'Three.' },
    ...[side('A title'), side('An aside'), side('A summary'), side('{"score": 1, "complete": true}')],
  ]
  const llm = { model: 'scripted/x', log_completions: true, script }
  const condenser = { kind: 'LLMSummarizingCondenser', keep_first: 0 }
  const life = await fixtures.create({
    model: openModel,
    agent: { llm, condenser },
    request: { autotitle: true },
  })
  await life.sendAndWait('go')
  await waitUntil(() => life.titles.length === 1)
  await life.sendAndWait('go on')
  expect(await life.conversation.askSideQuestion('How is it?', new AbortController().signal)).toBe('An aside')
  await life.conversation.condense()
  await life.conversation.startGoal('All done', 3)
  await life.conversation.waitUntilIdle()
  const logs = await life.eventsOfKind('LLMCompletionLogEvent')
  expect(logs.map(({ usage_id }) => usage_id).sort()).toEqual(
    ['ask-agent-llm', 'condenser', 'default', 'default', 'default', 'goal-judge', 'title'].sort(),
  )
  for (const { log_data } of logs) expect(JSON.parse(log_data)).toMatchObject({ request: {}, response: {} })
  expect(life.status).toBe('finished')
})
