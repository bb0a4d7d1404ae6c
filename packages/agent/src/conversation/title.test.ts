import { llm as llmSchema, must } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { gate, Player, Temporary, textOf, until } from './testing/fixtures.ts'
import { titleOf } from './title.ts'

let place: Temporary

beforeAll(async () => {
  place = await Temporary.open()
})
afterAll(() => place[Symbol.asyncDispose]())

const never = new AbortController().signal
const llm = llmSchema.parse({ model: 'small' })
const model = (text: string) => new Player([], { sides: [{ text }] }).open(llm)

test.each([
  ['A ship', 'A ship'],
  ['  "A ship"\n', 'A ship'],
  ['A\nship  of\twood', 'A ship of wood'],
  ['x'.repeat(60), `${'x'.repeat(47)}...`],
  ['🚢'.repeat(60), `${'🚢'.repeat(47)}...`],
])('the model says %j: the title is %j', async (said, title) => {
  expect((await titleOf('build a ship', { model: model(said) }, never)).title).toBe(title)
})

test('without a word of a model the message itself is the title, cut', async () => {
  const text = `build a ship ${'of wood '.repeat(10)}`
  const cut = { title: `${text.slice(0, 17)}...` }
  expect(await titleOf(text, { model: undefined, maxLength: 20 }, never)).toEqual(cut)
  const failing = new Player([], { sides: [{ failure: 'LLMTimeoutError' }] }).open(llm)
  expect(await titleOf(text, { model: failing, maxLength: 20 }, never)).toEqual(cut)
  expect(await titleOf('short', { model: model(' ') }, never)).toMatchObject({ title: 'short' })
})

test('a title fits also where there is hardly any room', async () => {
  for (const maxLength of [1, 2, 3, 4]) {
    const { title } = await titleOf('build a ship', { model: undefined, maxLength }, never)
    expect(title.length).toBeLessThanOrEqual(maxLength)
  }
})

test('the model is told how long a title may be and the beginning of the message, and no tools', async () => {
  const player = new Player([], { sides: [{ text: 'A ship' }] })
  await titleOf(`build ${'x'.repeat(5_000)}`, { model: player.open(llm), maxLength: 33 }, never)
  const [asked] = player.aside
  expect(asked?.tools).toEqual([])
  expect(textOf(asked?.messages[0]?.content)).toContain('33 characters')
  expect(textOf(asked?.messages[1]?.content)).toHaveLength(1000)
})

test('the first message gives a conversation its title, beside the run and once', async () => {
  const waiting = gate()
  const player = new Player([], { sides: [{ text: 'A ship', before: () => waiting.opened }] })
  const life = await place.begin({ model: player.open, request: { autotitle: true } })
  await life.say('build a ship')
  expect(life.status).toBe('finished')
  expect(life.titles).toEqual([])
  waiting.open()
  await until(() => life.titles.length === 1)
  await life.say('and another')
  expect(life.titles).toEqual(['A ship'])
  expect(player.aside).toHaveLength(1)
  expect((await place.storage.conversations.get([life.id]))[0]?.title).toBe('A ship')
  expect(must((await life.events())[0], 'an event').kind).toBe('SystemPromptEvent')
})

test('no title is looked for when there is one, also when the conversation was closed in between', async () => {
  const player = new Player([], { sides: [{ text: 'A ship' }] })
  const life = await place.begin({ model: player.open, request: { autotitle: true } })
  await life.say('build a ship')
  await until(() => life.titles.length === 1)
  await life.conversation.close()
  await life.open()
  await life.say('and another')
  expect(player.aside).toHaveLength(1)
})

test('no title is looked for when none is wanted', async () => {
  const player = new Player()
  const life = await place.begin({ model: player.open, request: { autotitle: false } })
  await life.say('build a ship')
  expect(player.aside).toEqual([])
})

test('titles are asked of the model that is for titles', async () => {
  const asked: string[] = []
  const player = new Player([], { sides: [{ text: 'A ship' }] })
  const life = await place.begin({
    model: (own, options) => {
      const opened = player.open(own, options)
      return {
        ...opened,
        respond: (request, signal) => {
          if (request.tools.length === 0) asked.push(own.model)
          return opened.respond(request, signal)
        },
      }
    },
    request: { autotitle: true },
    titleLlm: llm,
  })
  await life.send('build a ship')
  await until(() => life.titles.length === 1)
  expect(asked).toEqual(['small'])
})

test('a title that is asked for is about the first message, and counted', async () => {
  const player = new Player([], { sides: [{ text: 'A ship of wood and other things' }] })
  const life = await place.begin({ model: player.open })
  await life.say('build a ship')
  await life.say('now a car')
  expect(await life.conversation.title({ maxLength: 10 }, never)).toBe('A ship ...')
  expect(textOf(player.aside[0]?.messages[1]?.content)).toBe('build a ship')
  expect(Object.keys(life.conversation.stats.toJSON().usage_to_metrics)).toContain('title')
})
