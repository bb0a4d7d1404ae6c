import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { topLevelCommands } from './top-level-commands.ts'

test.each([
  ['', []],
  ['# nothing', []],
  ['ls', ['ls']],
  ['ls\npwd', ['ls', 'pwd']],
  ['ls; pwd', ['ls; pwd']],
  ['ls; pwd\ndate', ['ls; pwd', 'date']],
  ['# first\nls # second\n\n# third', ['ls']],
  ['a &&\n b', ['a &&\n b']],
  ['a \\\n  b', ['a \\\n  b']],
  ['a |\n b', ['a |\n b']],
  ['a &\nb', ['a &', 'b']],
  ['for x in 1 2; do\n  echo $x\ndone', ['for x in 1 2; do\n  echo $x\ndone']],
  ['f() {\n  ls\n}', ['f() {\n  ls\n}']],
  ['f() {\n  ls\n}; f', ['f() {\n  ls\n}; f']],
  ['cat <<E\na\nb\nE', ['cat <<E']],
  ['cat <<E; ls\na\nE', ['cat <<E; ls']],
  ['cat <<E\na\nE\nls', ['cat <<E', 'ls']],
  ['echo "a\nb"', ['echo "a\nb"']],
  ['echo $(ls\npwd)', ['echo $(ls\npwd)']],
])('the top level of %j is %j', async (text, commands) => {
  expect(await topLevelCommands(text)).toEqual({ commands })
})

test.each(['echo "abc', "echo 'abc", 'echo $(ls', 'if true; then', 'ls )', 'for x in', '{ ls'])(
  'an error of %j has its line',
  async (text) => {
    expect(await topLevelCommands(text)).toEqual({ error: expect.stringMatching(/^Line 1: .+\.$/) })
    expect(await topLevelCommands(`ls\n${text}`)).toEqual({ error: expect.stringMatching(/^Line 2: .+\.$/) })
  },
)

test('commands on lines of their own are as many as the lines', async () => {
  const command = fc.constantFrom('ls', 'a && b', 'a; b', 'x | y', 'echo "1\n2"', '{ a\n b\n}', 'A=1 b')
  await fc.assert(
    fc.asyncProperty(fc.array(command, { maxLength: 6 }), async (commands) => {
      expect(await topLevelCommands(commands.join('\n\n# comment\n'))).toEqual({ commands })
    }),
  )
})

test('no text is too strange to be read', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary' }), async (text) => {
      const parsed = await topLevelCommands(text)
      expect('error' in parsed || parsed.commands.every((command) => text.includes(command))).toBe(true)
    }),
  )
})
