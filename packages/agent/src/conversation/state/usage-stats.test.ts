import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ModelReply } from '../../llm/model.ts'
import { openModel } from '../../llm/models/open-model.ts'
import { ConversationFixtures, FakeModel, waitUntil } from '../testing/fixtures.ts'
import { combineMetrics, UsageStats } from './usage-stats.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const neverAborted = new AbortController().signal

function answer(id: string, tokens: number, cost = 0.5): ModelReply {
  return {
    kind: 'reply',
    responseId: id,
    message: { role: 'assistant', content: [], thinking_blocks: [] },
    usage: {
      model: 'm',
      prompt_tokens: tokens,
      completion_tokens: 1,
      cache_read_tokens: 2,
      cache_write_tokens: 3,
      reasoning_tokens: 4,
      context_window: 1000,
      per_turn_token: tokens + 1,
      response_id: id,
    },
    cost,
    latencyMs: 1500,
    model: 'm',
    usageId: 'default',
    stop: 'stop',
  }
}

test('the usage of another conversation replaces its earlier value under one id', () => {
  const child = new UsageStats()
  child.addReply(answer('a', 10), 'agent', 1_000_000)
  child.addReply(answer('b', 20, 0.25), 'condenser', 2_000_000)
  const stats = new UsageStats()
  stats.replace('task:1', new UsageStats())
  expect(stats.toJSON().usage_to_metrics).toEqual({})
  stats.addReply(answer('c', 5), 'agent', 3_000_000)
  stats.replace('task:1', child)
  child.addReply(answer('d', 1), 'agent', 4_000_000)
  stats.replace('task:1', child)
  expect(stats.cost).toBe(1.75)
  expect(stats.snapshot().usage_to_metrics['task:1']).toMatchObject({
    model_name: 'm',
    accumulated_cost: 1.25,
    accumulated_token_usage: { prompt_tokens: 31, completion_tokens: 3, reasoning_tokens: 12 },
  })
  expect(combineMetrics(stats)).toMatchObject({
    accumulated_cost: 1.75,
    accumulated_token_usage: { prompt_tokens: 36 },
  })
  const rows = stats.toJSON().usage_to_metrics['task:1']
  expect(rows).toMatchObject({
    token_usages: [{ response_id: 'a' }, { response_id: 'd' }, { response_id: 'b' }],
  })
  for (let count = 0; count < 100; count++) child.addReply(answer(`${count}`, 1), 'agent', 5_000_000)
  stats.replace('task:1', child)
  expect(Object(stats.toJSON().usage_to_metrics['task:1']).costs).toHaveLength(50)
  // The child's own are as they were.
  expect(child.toJSON().usage_to_metrics.condenser).toMatchObject({ accumulated_cost: 0.25 })
})

test('each answer is a row of its usage id, and all of them a sum', () => {
  const stats = new UsageStats()
  stats.addReply(answer('a', 10), 'agent', 2_000_000)
  stats.addReply(answer('b', 20), 'agent', 3_500_000)
  stats.addReply(answer('c', 5, 0.25), 'title', 4_000_000)
  const json = JSON.parse(JSON.stringify(stats))
  expect(Object.keys(json.usage_to_metrics)).toEqual(['agent', 'title'])
  expect(json.usage_to_metrics.agent).toEqual({
    model_name: 'm',
    accumulated_cost: 1,
    max_budget_per_task: null,
    accumulated_token_usage: {
      model: 'm',
      prompt_tokens: 30,
      completion_tokens: 2,
      cache_read_tokens: 4,
      cache_write_tokens: 6,
      reasoning_tokens: 8,
      context_window: 1000,
      per_turn_token: 21,
      response_id: '',
    },
    costs: [
      { model: 'm', cost: 0.5, timestamp: 2 },
      { model: 'm', cost: 0.5, timestamp: 3.5 },
    ],
    response_latencies: [
      { model: 'm', latency: 1.5, response_id: 'a' },
      { model: 'm', latency: 1.5, response_id: 'b' },
    ],
    token_usages: [answer('a', 10).usage, answer('b', 20).usage],
  })
  expect(stats.cost).toBe(1.25)
  expect(combineMetrics(stats)).toMatchObject({
    model_name: 'm',
    accumulated_cost: 1.25,
    accumulated_token_usage: { prompt_tokens: 35, reasoning_tokens: 12 },
  })
  expect(combineMetrics(new UsageStats())).toBeNull()
})

test('the snapshot for sockets has no rows of single replies', () => {
  const stats = new UsageStats()
  stats.addReply(answer('a', 10), 'agent', 1)
  expect(Object.keys(stats.snapshot().usage_to_metrics.agent ?? {})).toEqual([
    'model_name',
    'accumulated_cost',
    'max_budget_per_task',
    'accumulated_token_usage',
  ])
})

test('whatever is added, before or after it was saved, the sums are those of all answers and the rows the newest fifty', () => {
  const item = fc.tuple(
    fc.constantFrom('agent', 'condenser'),
    fc.integer({ min: 0, max: 1000 }),
    fc.boolean(),
  )
  fc.assert(
    fc.property(fc.array(item, { maxLength: 130 }), (items) => {
      let stats = new UsageStats()
      for (const [index, [usageId, tokens, isSaved]] of items.entries()) {
        stats.addReply(answer(`${index}`, tokens), usageId, index)
        if (isSaved) stats = new UsageStats(JSON.stringify(stats))
      }
      const json = JSON.parse(JSON.stringify(stats)).usage_to_metrics
      for (const id of ['agent', 'condenser']) {
        const own = items.flatMap(([usageId, tokens], index) => (usageId === id ? [{ index, tokens }] : []))
        const total = own.reduce((sum, { tokens }) => sum + tokens, 0)
        expect(json[id]?.accumulated_token_usage.prompt_tokens ?? 0).toBe(total)
        const rows = (json[id]?.token_usages ?? []).map((usage: { response_id: string }) => usage.response_id)
        expect(rows).toEqual(own.slice(-50).map(({ index }) => `${index}`))
      }
    }),
  )
})

test('each reply is counted in the write that stores it, and published', async () => {
  const life = await fixtures.create({
    model: new FakeModel([{ calls: [['think', { thought: 'hm' }]] }]).open,
  })
  await life.sendAndWait('go')
  const [record] = await fixtures.storage.conversations.get([life.id])
  expect(JSON.parse(record?.stats ?? '')).toMatchObject(JSON.parse(JSON.stringify(life.conversation.stats)))
  expect(life.conversation.stats.cost).toBe(0.5)
  expect(life.updates.filter(({ kind }) => kind === 'stats')).toHaveLength(2)
  // It is no event: nothing is stored that is told of elsewhere.
  expect((await life.eventsOfKind('ConversationStateUpdateEvent')).map(({ key }) => key)).toEqual([
    'execution_status',
    'execution_status',
  ])
  const conversation = await life.reopen()
  expect(conversation.stats.cost).toBe(0.5)
})

test('a side question writes no event, sends the history, and counts under its own usage id', async () => {
  const player = new FakeModel([{ text: 'Done.' }], { sides: [{ text: 'It is about ships.' }] })
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('build a ship')
  const before = await life.events()
  expect(await life.conversation.askSideQuestion('What is this about?', neverAborted)).toBe(
    'It is about ships.',
  )
  expect(await life.events()).toEqual(before)
  expect(player.sideRequests[0]?.toolChoice).toBe('none')
  expect(JSON.stringify(player.sideRequests[0]?.messages)).toContain('build a ship')
  expect(JSON.stringify(player.sideRequests[0]?.messages.at(-1))).toContain('What is this about?')
  const { usage_to_metrics } = life.conversation.stats.toJSON()
  expect(Object.keys(usage_to_metrics)).toEqual(['default', 'ask-agent-llm'])
  const [record] = await fixtures.storage.conversations.get([life.id])
  expect(record?.stats).toContain('ask-agent-llm')
})

test('a question beside the conversation can be asked while a tool runs', async () => {
  const player = new FakeModel([{ text: 'I do.', calls: [['terminal', { command: 'sleep 30' }]] }])
  const life = await fixtures.create({ model: player.open, agent: { tools: [{ name: 'terminal' }] } })
  await life.send('go', { run: true })
  await waitUntil(async () => (await life.eventsOfKind('ActionEvent')).length === 1)
  expect(await life.conversation.askSideQuestion('How is it going?', neverAborted)).toBe('Aside.')
  // A call without a result would not be understood by a provider.
  expect(player.sideRequests[0]?.messages.every(({ tool_calls = [] }) => tool_calls?.length === 0)).toBe(true)
  await life.conversation.interrupt()
})

test('a question that the model does not answer is a problem that says why', async () => {
  const player = new FakeModel([], { sides: [{ failure: 'LLMRateLimitError', detail: 'Slow down.' }] })
  const life = await fixtures.create({ model: player.open })
  await expect(life.conversation.askSideQuestion('Well?', neverAborted)).rejects.toMatchObject({
    name: 'Problem',
    code: 'unavailable',
    message: expect.stringContaining('LLMRateLimitError: Slow down.'),
  })
})

test('condensing and naming are counted beside the work, also where the model is the same', async () => {
  const player = new FakeModel([], { sides: [{ text: 'A title' }, { text: 'Summed up.' }] })
  const thoughts = Array.from({ length: 5 }, (_, n) => ({
    tool_calls: [{ name: 'think', arguments: { thought: `${n}` } }],
  }))
  const life = await fixtures.create({
    agent: {
      llm: { model: 'scripted/x', usage_id: 'agent', input_cost_per_token: 0.001, script: thoughts },
      condenser: { kind: 'LLMSummarizingCondenser', max_size: 10 },
    },
    request: { autotitle: true },
    model: (llm, options) => {
      const model = openModel(llm, options)
      const side = player.open(llm)
      return {
        llm,
        contextWindow: model.contextWindow,
        countTokens: (messages) => model.countTokens(messages),
        generate: (request, signal) =>
          (request.tools.length === 0 || request.toolChoice === 'none' ? side : model).generate(
            request,
            signal,
          ),
      }
    },
  })
  await life.sendAndWait('go')
  await waitUntil(() => life.titles.length === 1)
  const metrics = life.conversation.stats.toJSON().usage_to_metrics
  expect(Object.keys(metrics).sort()).toEqual(['agent', 'condenser', 'title'])
  expect(metrics.title).toMatchObject({ accumulated_cost: 0.25 })
  expect(metrics.condenser).toMatchObject({ accumulated_cost: 0.25 })
})
