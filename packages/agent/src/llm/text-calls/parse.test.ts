import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ModelTool } from '../model.ts'
import { callText } from './format.ts'
import { parseTextCalls } from './parse.ts'

const tools: ModelTool[] = [
  {
    name: 'terminal',
    description: '',
    parameters: {
      properties: { command: { type: 'string' }, timeout: { type: 'number' }, is_input: { type: 'boolean' } },
    },
  },
]
const command = (value: string) =>
  `<tool_call name="terminal">\n<parameter name="command">\n${value}\n</parameter>\n</tool_call>`
const calls = (text: string) => parseTextCalls(text, tools).calls.map((call) => [call.name, call.arguments])
const terminal = (args: object) => [['terminal', JSON.stringify(args)]]

test.each([
  ['the stated form', command('ls'), terminal({ command: 'ls' })],
  [
    'on one line',
    '<tool_call name="terminal"><parameter name="command">ls</parameter></tool_call>',
    terminal({ command: 'ls' }),
  ],
  [
    'tags of functions',
    '<function=terminal>\n<parameter=command>ls -l</parameter>\n</function>',
    terminal({ command: 'ls -l' }),
  ],
  [
    'JSON in a tag',
    '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</tool_call>',
    terminal({ command: 'ls' }),
  ],
  [
    'JSON in a named tag',
    '<tool_call name="terminal">{"command":"ls"}</tool_call>',
    terminal({ command: 'ls' }),
  ],
  ['no parameters', '<tool_call name="terminal">\n</tool_call>', terminal({})],
  ['without its end', command('ls').replace('</tool_call>', ''), terminal({ command: 'ls' })],
  ['several lines', command('cat <<X\na\n\nb\nX'), terminal({ command: 'cat <<X\na\n\nb\nX' })],
  ['a closing tag in a value', command('echo "</tool_call>"'), terminal({ command: 'echo "</tool_call>"' })],
  [
    'two calls',
    `${command('a')}\n${command('b')}`,
    [...terminal({ command: 'a' }), ...terminal({ command: 'b' })],
  ],
  [
    'an invented result',
    `${command('a')}\n<tool_result>x</tool_result>\n${command('b')}`,
    terminal({ command: 'a' }),
  ],
  [
    'a function in a call',
    '<tool_call>\n<function=terminal>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>',
    terminal({ command: 'ls' }),
  ],
])('%s', (_, text, expected) => {
  expect(calls(text)).toEqual(expected)
})

test('values have the types of the schema, texts stay as they are', () => {
  const text = `First.\n\n<tool_call name="terminal">\n<parameter name="command">\n"5"\n</parameter>\n<parameter name="timeout">5</parameter>\n<parameter name="is_input">false</parameter></tool_call>`
  const parsed = parseTextCalls(text, tools)
  expect(parsed.text).toBe('First.')
  expect(parsed.calls).toEqual([
    { name: 'terminal', arguments: JSON.stringify({ command: '"5"', timeout: 5, is_input: false }) },
  ])
})

test('a call that was cut off has no valid arguments', () => {
  const whole = `${command('ls')}\n${command('echo some long text')}`
  const cut = parseTextCalls(whole.slice(0, whole.indexOf('long')), tools).calls
  expect(cut).toHaveLength(2)
  expect(() => JSON.parse(cut[1]?.arguments ?? '')).toThrow()
})

test('every call that is written is read as it was', () => {
  const value = fc
    .string({ unit: 'grapheme', maxLength: 60 })
    .filter((text) => !/<\/?(?:parameter|tool_call|function)|\r/.test(text))
  fc.assert(
    fc.property(fc.record({ command: value, timeout: fc.integer() }), (args) => {
      const text = callText({
        id: 'a',
        name: 'terminal',
        arguments: JSON.stringify(args),
        origin: 'completion',
      })
      expect(parseTextCalls(`Now.\n${text}`, tools)).toEqual({
        text: 'Now.',
        calls: [{ name: 'terminal', arguments: JSON.stringify(args) }],
      })
    }),
  )
})
