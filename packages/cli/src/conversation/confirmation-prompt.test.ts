import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { askYesOrNo } from './confirmation-prompt.ts'

test.each([
  ['y', true],
  ['n', false],
  // The answer that is selected at first.
  ['\r', false],
  // Ctrl-C.
  ['\x03', false],
])('the key %j answers %s', async (key, answer) => {
  const input = new PassThrough()
  const asked = askYesOrNo('Really?', new AbortController().signal, { input, output: new PassThrough() })
  // Kept until the question reads it.
  input.write(key)
  expect(await asked).toBe(answer)
})

test('a question that is aborted is not answered with yes', async () => {
  const streams = { input: new PassThrough(), output: new PassThrough() }
  expect(await askYesOrNo('Really?', AbortSignal.abort(), streams)).toBe(false)
})
