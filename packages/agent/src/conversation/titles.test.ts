import { llm as llmSchema, must } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, contentText, createLatch, FakeModel, waitUntil } from './testing/fixtures.ts'
import { generateTitle } from './titles.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const neverAborted = new AbortController().signal
const llm = llmSchema.parse({ model: 'small' })
const model = (text: string) => new FakeModel([], { sides: [{ text }] }).open(llm)

test.each([
  ['A ship', 'A ship'],
  ['  "A ship"\n', 'A ship'],
  ['A\nship  of\twood', 'A ship of wood'],
  ['x'.repeat(60), `${'x'.repeat(47)}...`],
  ['🚢'.repeat(60), `${'🚢'.repeat(47)}...`],
])('the model says %j: the title is %j', async (said, title) => {
  expect((await generateTitle('build a ship', { model: model(said) }, neverAborted)).title).toBe(title)
})

test('without a word of a model the message itself is the title, cut', async () => {
  const text = `build a ship ${'of wood '.repeat(10)}`
  const cut = { title: `${text.slice(0, 17)}...` }
  expect(await generateTitle(text, { model: undefined, maxLength: 20 }, neverAborted)).toEqual(cut)
  const failing = new FakeModel([], { sides: [{ failure: 'LLMTimeoutError' }] }).open(llm)
  expect(await generateTitle(text, { model: failing, maxLength: 20 }, neverAborted)).toEqual(cut)
  expect(await generateTitle('short', { model: model(' ') }, neverAborted)).toMatchObject({ title: 'short' })
})

test('a title fits also where there is hardly any room', async () => {
  for (const maxLength of [1, 2, 3, 4]) {
    const { title } = await generateTitle('build a ship', { model: undefined, maxLength }, neverAborted)
    expect(title.length).toBeLessThanOrEqual(maxLength)
  }
})

test('a title request has the length limit, the beginning of the message, and no tools', async () => {
  const player = new FakeModel([], { sides: [{ text: 'A ship' }] })
  await generateTitle(`build ${'x'.repeat(5_000)}`, { model: player.open(llm), maxLength: 33 }, neverAborted)
  const [asked] = player.sideRequests
  expect(asked?.tools).toEqual([])
  expect(contentText(asked?.messages[0]?.content)).toContain('33 characters')
  expect(contentText(asked?.messages[1]?.content)).toHaveLength(1000)
})

test('the first message gives a conversation its title, beside the run and once', async () => {
  const waiting = createLatch()
  const player = new FakeModel([], { sides: [{ text: 'A ship', before: () => waiting.opened }] })
  const life = await fixtures.create({ model: player.open, request: { autotitle: true } })
  await life.sendAndWait('build a ship')
  expect(life.status).toBe('finished')
  expect(life.titles).toEqual([])
  waiting.open()
  await waitUntil(() => life.titles.length === 1)
  await life.sendAndWait('and another')
  expect(life.titles).toEqual(['A ship'])
  expect(player.sideRequests).toHaveLength(1)
  expect((await fixtures.storage.conversations.get([life.id]))[0]?.title).toBe('A ship')
  expect(must((await life.events())[0], 'an event').kind).toBe('SystemPromptEvent')
})

test('no title is looked for when there is one, also when the conversation was closed in between', async () => {
  const player = new FakeModel([], { sides: [{ text: 'A ship' }] })
  const life = await fixtures.create({ model: player.open, request: { autotitle: true } })
  await life.sendAndWait('build a ship')
  await waitUntil(() => life.titles.length === 1)
  await life.conversation.close()
  await life.open()
  await life.sendAndWait('and another')
  expect(player.sideRequests).toHaveLength(1)
})

test('no title is looked for when none is wanted', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open, request: { autotitle: false } })
  await life.sendAndWait('build a ship')
  expect(player.sideRequests).toEqual([])
})

test('titles come from the title model', async () => {
  const asked: string[] = []
  const player = new FakeModel([], { sides: [{ text: 'A ship' }] })
  const life = await fixtures.create({
    model: (own, options) => {
      const opened = player.open(own, options)
      return {
        ...opened,
        generate: (request, signal) => {
          if (request.tools.length === 0) asked.push(own.model)
          return opened.generate(request, signal)
        },
      }
    },
    request: { autotitle: true },
    titleLlm: llm,
  })
  await life.send('build a ship')
  await waitUntil(() => life.titles.length === 1)
  expect(asked).toEqual(['small'])
})

test('a requested title is about the first message and is counted', async () => {
  const player = new FakeModel([], { sides: [{ text: 'A ship of wood and other things' }] })
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('build a ship')
  await life.sendAndWait('now a car')
  expect(await life.conversation.generateTitle({ maxLength: 10 }, neverAborted)).toBe('A ship ...')
  expect(contentText(player.sideRequests[0]?.messages[1]?.content)).toBe('build a ship')
  expect(Object.keys(life.conversation.stats.toJSON().usage_to_metrics)).toContain('title')
})
