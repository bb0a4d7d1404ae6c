import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, FakeModel } from './testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

test('settings of a request are applied once, also when the conversation is opened again before its run', async () => {
  const player = new FakeModel([{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('First.')
  const { settings } = life.conversation
  await life.conversation.configure({
    llm: settings.agent.llm,
    ...{ suffix: 'Rule Q.', clientTools: undefined, responseSchema: undefined },
    ...{ door: {}, isCopy: false },
  })
  await life.reopen()
  await life.sendAndWait('Second.')
  await life.sendAndWait('Third.')
  const prompts = await life.eventsOfKind('SystemPromptEvent')
  expect(prompts.map((event) => JSON.stringify(event).includes('Rule Q.'))).toEqual([false, true])
})
