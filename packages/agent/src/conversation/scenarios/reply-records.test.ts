import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from '../../llm/models/open-model.ts'
import { ConversationFixtures, FakeModel, type FakeTurn, waitUntil } from '../testing/fixtures.ts'

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
  await life.sendAndWait('continue')
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

test('every call of a model has its log and its token ids, once, before what came of it', async () => {
  let calls = 0
  const turn = (more: FakeTurn): FakeTurn => {
    const id = ++calls
    const completionLog = { filename: `${id}.json`, data: JSON.stringify({ id }) }
    return {
      ...more,
      answer: { completionLog, tokenIds: { prompt: [id], response: [id, id] }, ...more.answer },
    }
  }
  const cut = { stop: 'length' as const }
  const turns = [
    { calls: [['think', { thought: 'hm' }]] as const },
    { text: 'One, ', answer: cut },
    { text: 'two.' },
  ]
  const sides = [
    '{"decision": "allow"}',
    'A title',
    'An aside',
    'A summary',
    '{"score": 1, "complete": true}',
  ]
  const player = new FakeModel([...turns, { text: 'Three.' }].map(turn), {
    sides: sides.map((text) => turn({ text })),
  })
  const life = await fixtures.create({
    model: player.open,
    agent: { condenser: { kind: 'LLMSummarizingCondenser', keep_first: 0 } },
    request: {
      hook_config: {
        pre_tool_use: [{ matcher: 'think', hooks: [{ type: 'prompt', prompt: 'Is it well?' }] }],
      },
    },
  })
  await life.sendAndWait('go')
  await life.conversation.generateTitle({ maxLength: 50 }, new AbortController().signal)
  await life.conversation.askSideQuestion('How is it?', new AbortController().signal)
  await life.conversation.condense()
  await life.conversation.startGoal('All done', 3)
  await life.conversation.waitUntilIdle()
  const logs = await life.eventsOfKind('LLMCompletionLogEvent')
  const tokens = await life.eventsOfKind('TokenEvent')
  expect(player.requests.length + player.sideRequests.length).toBe(logs.length)
  expect(new Set(logs.map(({ filename }) => filename)).size).toBe(logs.length)
  expect(tokens.map(({ prompt_token_ids: [id] }) => `${id}.json`)).toEqual(
    logs.map(({ filename }) => filename),
  )
  expect([...new Set(logs.map(({ usage_id }) => usage_id))].sort()).toEqual(
    ['ask-agent-llm', 'condenser', 'default', 'goal-judge', 'hook', 'title'].sort(),
  )
})
