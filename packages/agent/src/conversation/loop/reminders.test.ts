import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, FakeModel, type FakeTurn } from '../testing/fixtures.ts'
import { isAnnouncement } from './reminders.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const agent = { tools: [{ name: 'task_tracker' }], include_default_tools: ['FinishTool', 'ThinkTool'] }
const plan = (...statuses: readonly string[]): FakeTurn => ({ calls: [planCall(...statuses)] })
const planCall = (...statuses: readonly string[]): readonly [string, object] => [
  'task_tracker',
  { command: 'plan', task_list: statuses.map((status, at) => ({ title: `task ${at + 1}`, status })) },
]
const think = (count: number): FakeTurn[] =>
  Array.from({ length: count }, (_, at) => ({ calls: [['think', { thought: `thought ${at}` }]] }))
const finish: FakeTurn = { calls: [['finish', { message: 'Done.' }]] }

async function run(turns: readonly FakeTurn[], request: Readonly<Record<string, unknown>> = {}) {
  const player = new FakeModel(turns)
  const life = await fixtures.create({ model: player.open, agent, request })
  await life.sendAndWait('go')
  const sent = player.requests.map(({ messages }) => JSON.stringify(messages.at(-1)))
  return { life, sent }
}

test('open tasks are shown again after ten steps without a look at the list, and after ten more', async () => {
  const { sent } = await run([plan('done', 'todo'), ...think(21), plan('done', 'done'), ...think(11), finish])
  const reminded = sent.flatMap((message, at) => (message.includes('was not touched') ? [at] : []))
  expect(reminded).toEqual([11, 21])
  expect(sent[11]).toContain('- [todo] task 2')
  expect(sent[11]).not.toContain('task 1')
})

test('a finish with open tasks is refused once after each message', async () => {
  const { life, sent } = await run([plan('done', 'in_progress'), finish, finish, finish, finish])
  expect(sent).toHaveLength(3)
  expect(sent[2]).toContain('- [in_progress] task 2')
  expect(life.status).toBe('finished')
  await life.sendAndWait('and now?')
  expect((await life.eventsOfKind('AgentErrorEvent')).map(({ tool_name }) => tool_name)).toEqual([
    'finish',
    'finish',
  ])
  expect(life.status).toBe('finished')
})

test('a list that the finishing answer itself brings up to date is no reason to refuse it', async () => {
  const last: FakeTurn = { calls: [planCall('done', 'done'), ['finish', { message: 'Done.' }]] }
  const { life } = await run([plan('done', 'todo'), last])
  expect(await life.eventsOfKind('AgentErrorEvent')).toEqual([])
  expect(life.status).toBe('finished')
})

test('an answer that announces an action and calls nothing is asked for it, once', async () => {
  const text = 'The fix is in. I will now run the tests.'
  const { life, sent } = await run([{ text }, { text }, { text: 'Never asked.' }])
  expect(sent).toHaveLength(2)
  expect(sent[1]).toContain('called no tool')
  expect(life.status).toBe('finished')
})

test('an answer of the last step that announces an action ends the run as other answers do', async () => {
  const { life, sent } = await run([{ text: 'I will now run the tests.' }], { max_iterations: 1 })
  expect(sent).toHaveLength(1)
  expect(life.status).toBe('finished')
})

test.each([
  'I will now run the tests.',
  "Now I'll check the file:",
  'All is clear.\n\nLet me fix that.',
  'Okay, I’m going to start by reading the code.',
  'When the build is done, tests can run. I will look at it.',
  "Let's run it.",
])('%j announces an action', (text) => expect(isAnnouncement(text)).toBe(true))

test.each([
  'The tests pass.',
  'I will wait for your answer.',
  'Let me know what you think.',
  'Shall I run the tests? I will run them now if you agree.',
  'Once you confirm, I will run the tests.',
  'I will run the tests as soon as the build is done.',
  "I'll update the branch after the review.",
  'I will check again when CI has finished.',
  "Next, I'll fix the second part unless the first one is enough.",
  'I will look forward to your answer.',
  "I'll leave it at that.",
  'I will keep that in mind.',
  "Let's talk about it tomorrow.",
  'I ran the tests.',
  'I will not change the file.',
  '',
])('%j announces none', (text) => expect(isAnnouncement(text)).toBe(false))
