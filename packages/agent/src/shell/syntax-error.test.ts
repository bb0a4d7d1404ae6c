import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { shellSyntaxError } from './syntax-error.ts'

test.each([
  '',
  '# nothing',
  'ls\npwd',
  'for x in 1 2; do\n  echo $x\ndone',
  'cat <<E\na\nE\nls',
  'echo "a\nb"',
  'echo $(ls\npwd)',
])('%j is valid', async (text) => {
  expect(await shellSyntaxError(text)).toBeUndefined()
})

test.each(['echo "abc', "echo 'abc", 'echo $(ls', 'if true; then', 'ls )', 'for x in', '{ ls'])(
  'an error of %j has its line',
  async (text) => {
    expect(await shellSyntaxError(text)).toMatch(/^Line 1: .+\.$/)
    expect(await shellSyntaxError(`ls\n${text}`)).toMatch(/^Line 2: .+\.$/)
  },
)

test('no text is too strange to be read', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary' }), async (text) => {
      await shellSyntaxError(text)
    }),
  )
})
