import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ModelRequest } from '../../llm/model.ts'
import { ConversationFixtures, contentText, FakeModel, type FakeTurn } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const condenser = { kind: 'LLMSummarizingCondenser', max_size: 10, keep_first: 2 }
const thoughts = (count: number, from = 0) =>
  Array.from(
    { length: count },
    (_, n): FakeTurn => ({ calls: [['think', { thought: `thought ${from + n}` }]] }),
  )

/** A request without its cache marks, which move from request to request. */
const unmarked = ({ messages }: ModelRequest) =>
  messages.map((message) => ({
    ...message,
    content: message.content.map((part) => ({ ...part, cache_prompt: false })),
  }))

test('a summary is asked for at the end of what the model has read already, with the same tools', async () => {
  const player = new FakeModel(thoughts(6), { sides: [{ text: 'So far.' }] })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  const [aside] = player.sideRequests
  if (aside === undefined) throw new Error('no summary was asked for')
  const before = player.requests
    .filter(({ messages }) => !JSON.stringify(messages).includes('So far.'))
    .at(-1)
  if (before === undefined) throw new Error('no request before it')
  expect(unmarked(aside).slice(0, before.messages.length)).toEqual(unmarked(before))
  expect(aside).toMatchObject({ tools: before.tools, toolChoice: 'none', keepsCache: true })
  expect(contentText(aside.messages.at(-1)?.content)).toContain('Write a summary')
  const [condensation] = await life.eventsOfKind('Condensation')
  expect(condensation?.summary).toBe('So far.')
})

test('a model that continues with calls instead of a summary is asked by its own request', async () => {
  const calls: FakeTurn = { text: 'I continue.', calls: [['think', { thought: 'hm' }]] }
  const player = new FakeModel(thoughts(6), { sides: [calls, { text: 'So far.' }] })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  expect(player.sideRequests[1]?.tools).toEqual([])
  const [condensation] = await life.eventsOfKind('Condensation')
  expect(condensation?.summary).toBe('So far.')
  expect(life.conversation.stats.toJSON().usage_to_metrics.condenser?.token_usages).toHaveLength(2)
})

test('a prompt that was too long is not sent once more to be summarised', async () => {
  const overflow: FakeTurn = { failure: 'LLMContextWindowExceedError', detail: 'Too long.' }
  const player = new FakeModel([...thoughts(3), overflow], { sides: [{ text: 'So far.' }] })
  const life = await fixtures.create({ model: player.open, agent: { condenser } })
  await life.sendAndWait('go')
  expect(player.sideRequests[0]?.tools).toEqual([])
  expect(life.status).toBe('finished')
})

test('20 facts, the task list and the goal survive five condensations, whatever the model writes', async () => {
  const facts = Array.from({ length: 20 }, (_, n) => `- Port ${4000 + n} belongs to service-${n}.`)
  const plan: FakeTurn = {
    calls: [
      [
        'task_tracker',
        {
          command: 'plan',
          task_list: [
            { title: 'Read the plan', status: 'done' },
            { title: 'Move the harbour', notes: 'before noon' },
          ],
        },
      ],
    ],
  }
  const first = `Ports were read.\n\n## Facts\n${facts.join('\n')}`
  const sides = [first, ...Array.from({ length: 40 }, (_, n) => `Summary ${n}.\n## Facts\n- Extra ${n}.`)]
  const player = new FakeModel([plan, ...thoughts(30)], { sides: sides.map((text) => ({ text })) })
  const life = await fixtures.create({
    model: player.open,
    agent: { condenser, tools: [{ name: 'task_tracker' }] },
    request: { stuck_detection: false },
  })
  await life.sendAndWait('go')
  expect((await life.eventsOfKind('Condensation')).length).toBeGreaterThanOrEqual(5)
  const last = JSON.stringify(player.requests.at(-1)?.messages)
  for (const fact of facts) expect(last).toContain(fact)
  expect(last).toContain('- [done] Read the plan')
  expect(last).toContain('- [todo] Move the harbour (before noon)')
  expect(last.match(/## Facts/g)).toHaveLength(1)
})

test('old results are shortened before anything is summarised, in the same way after a reopen', async () => {
  const workspace = join(fixtures.directory, 'many-files')
  await mkdir(workspace)
  const views = Array.from(
    { length: 14 },
    (_, n): FakeTurn => ({
      calls: [['file_editor', { command: 'view', path: `${workspace}/${n % 7}.txt` }]],
    }),
  )
  const player = new FakeModel(views, { contextWindow: 20_000 })
  const life = await fixtures.create({
    model: (llm, options) => {
      const model = player.open(llm, options)
      return {
        ...model,
        generate: async (request, signal) => {
          const result = await model.generate(request, signal)
          if (result.kind !== 'reply') return result
          const prompt_tokens = Math.ceil(JSON.stringify([request.messages, request.tools]).length / 4)
          expect(prompt_tokens).toBeLessThan(20_000)
          return { ...result, usage: { ...result.usage, prompt_tokens } }
        },
      }
    },
    agent: { tools: [{ name: 'file_editor' }] },
    request: { stuck_detection: false, workspace: { working_dir: workspace } },
  })
  const line = (n: number) => `Line of file ${n}.\n`.repeat(500)
  for (let n = 0; n < 7; n++) await writeFile(join(workspace, `${n}.txt`), `first ${n}\n${line(n)}last ${n}`)
  await life.sendAndWait('go')
  expect(life.status).toBe('finished')
  expect(player.sideRequests).toEqual([])
  const updates = (await life.eventsOfKind('ConversationStateUpdateEvent')).filter(
    ({ key }) => key === 'pruned_results',
  )
  expect(updates.length).toBeGreaterThan(0)
  const messages = [...life.conversation.state.view.messages()]
  const results = messages.filter(({ role }) => role === 'tool').map(({ content }) => contentText(content))
  expect(results).toHaveLength(14)
  expect(results[0]).toMatch(/shortened[\s\S]*first 0[\s\S]*left out[\s\S]*last 0/)
  expect(results[0]?.length).toBeLessThan(1_000)
  expect(results.at(-1)?.length).toBeGreaterThan(5_000)
  await life.reopen()
  expect(life.conversation.state.view.messages()).toEqual(messages)
})
