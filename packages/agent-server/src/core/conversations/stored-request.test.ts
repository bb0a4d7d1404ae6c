import { expect, test } from 'vitest'
import { parseSettings } from './stored-request.ts'

const settings = { agent: { llm: { model: 'scripted/x' } }, workspace: { working_dir: '/w' } }

test.each([{ content: [] }, { content: null }, { role: 'user', run: true }])(
  'a conversation of an earlier version with the first message %j opens',
  (initial_message) => {
    const stored = { ...settings, initial_message, max_iterations: 7 }
    expect(parseSettings(JSON.stringify(stored))).toMatchObject({ max_iterations: 7 })
  },
)

test('a first message with content is kept', () => {
  const initial_message = { content: [{ type: 'text', text: 'hi' }] }
  expect(parseSettings(JSON.stringify({ ...settings, initial_message })).initial_message).toMatchObject(
    initial_message,
  )
})
