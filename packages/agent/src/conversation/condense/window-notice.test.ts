import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import type { Model } from '../../llm/model.ts'
import { openModel } from '../../llm/models/open-model.ts'
import { ConversationFixtures, FakeModel } from '../testing/fixtures.ts'
import { modelNotice } from './window-notice.ts'

const model = openModel(llm.parse({ model: 'ollama/m', base_url: 'http://u:secret@h:1/v1' }))

const windowNotice = (asked: Model, counted: number, estimated: number) =>
  modelNotice(asked, { counted, estimated, hasTools: true })

test('a count far below the size of the request is told, with what to change', () => {
  const notice = windowNotice(model, 2_051, 17_000)
  expect(notice).toEqual({
    model: 'ollama/m at h:1',
    text: expect.stringContaining('2051 tokens of a request of about 17000'),
  })
  expect(notice?.text).toContain('num_ctx')
})

test.each([
  ['no count', 0, 17_000],
  ['an estimate that is too high', 9_000, 17_000],
  ['a small request', 300, 4_000],
])('%s is no sign of it', (_, counted, estimated) => {
  expect(windowNotice(model, counted, estimated)).toBeUndefined()
})

test('tools that the server leaves out are reported, where there are any', () => {
  const toolless: Model = {
    ...{ llm: model.llm, dropsTools: true, contextWindow: undefined },
    generate: async () => ({ kind: 'aborted' }),
    countTokens: () => 0,
  }
  const sizes = { counted: 900, estimated: 1_000 }
  expect(modelNotice(toolless, { ...sizes, hasTools: true })?.text).toContain('has no tools')
  expect(modelNotice(toolless, { ...sizes, hasTools: false })).toBeUndefined()
})

test('people are told once, also after a restart', async () => {
  const open = (...texts: string[]) => new FakeModel(texts.map((text) => ({ text }))).open
  await using fixtures = await ConversationFixtures.open()
  const life = await fixtures.create({ model: open('One.', 'Two.') })
  await life.sendAndWait('word '.repeat(5_000))
  await life.sendAndWait('And?')
  await life.reopen({ model: open('Three.') })
  await life.sendAndWait('And now?')
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  expect(updates.filter(({ key }) => key === 'model_notice')).toHaveLength(1)
})
