import type { MessageToolCall } from '@slipway/protocol'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openThink } from '../core/builtin.ts'
import type { Tool, ToolFactory } from '../core/tool.ts'
import { openFileEditor } from '../files/file-editor.ts'
import { openGlob } from '../search/glob.ts'
import { openTaskTracker } from '../tasks/task-tracker.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { addCommonParameters, extractCommonParameters, findAwaitedText, parseToolCall } from './parse-call.ts'
import { repairCall } from './repair-names.ts'
import { repairJson, repairTypes } from './repair-values.ts'

let fixtures: ToolFixtures
let tools: ReadonlyMap<string, Tool>
beforeAll(async () => {
  fixtures = await ToolFixtures.open()
  const opens: readonly ToolFactory[] = [openFileEditor, openGlob, openTaskTracker, openThink]
  const opened = await Promise.all(opens.map((open) => fixtures.tool(open)))
  tools = new Map(opened.map((tool) => [tool.name, tool]))
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const call = (name: string, args: unknown): MessageToolCall => ({
  id: 'call-1',
  name,
  arguments: typeof args === 'string' ? args : JSON.stringify(args),
  origin: 'completion',
})

test('a call that is right stays as it was received', () => {
  const received = call(
    'file_editor',
    '{ "path":"/a",\t"command":"view", "security_risk":"LOW", "summary": "look at a" }',
  )
  const read = parseToolCall(received, tools)
  expect(read).toMatchObject({
    kind: 'call',
    action: { kind: 'FileEditorAction', command: 'view', path: '/a' },
    security_risk: 'LOW',
    summary: 'look at a',
  })
  expect(read.tool_call).toBe(received)
})

test('a repaired call is rewritten with its common parameters', () => {
  const received = call('str_replace_editor', {
    path: '/a',
    view_range: '[1, 2]',
    securityRisk: 'medium',
    summary: 's',
  })
  const read = parseToolCall(received, tools)
  expect(read).toMatchObject({ kind: 'call', security_risk: 'MEDIUM', summary: 's' })
  expect(read.kind === 'call' && read.action).toEqual({
    kind: 'FileEditorAction',
    command: 'view',
    path: '/a',
    view_range: [1, 2],
  })
  expect(read.tool_call).toMatchObject({ id: 'call-1', name: 'file_editor', origin: 'completion' })
  expect(JSON.parse(read.tool_call.arguments)).toEqual({
    command: 'view',
    path: '/a',
    view_range: [1, 2],
    security_risk: 'medium',
    summary: 's',
  })
})

test('arguments with raw line ends are read, and none are an empty object', () => {
  const read = parseToolCall(call('think', '{"thought": "one\ntwo"}'), tools)
  expect(read).toMatchObject({ kind: 'call', action: { thought: 'one\ntwo' } })
  expect(JSON.parse(read.tool_call.arguments)).toEqual({ thought: 'one\ntwo' })
  expect(parseToolCall(call('task_tracker', ''), tools)).toMatchObject({
    kind: 'call',
    tool_call: { arguments: '{}' },
  })
})

test.each([
  ['think', '{"thought": ', /not valid JSON/],
  ['think', '[1]', /JSON object/],
  ['think', 'null', /JSON object/],
  ['think', `{"thought":${'['.repeat(1000)}${']'.repeat(1000)}}`, /deeper than 500/],
  ['think', '{}', /tool 'think': .*thought: Field required/],
  ['think', '{"thought":"t","more":1}', /more: Extra inputs/],
  [
    'nothing',
    '{}',
    /^Tool 'nothing' not found\. Available: \['file_editor', 'glob', 'task_tracker', 'think'\]$/,
  ],
  ['bash', '{"command":"ls"}', /^Tool 'bash' not found/],
  ['__proto__', '{}', /not found/],
  ['', '{}', /not found/],
  ['x'.repeat(100_000), '{}', /^.{200,400}$/],
  ['file_editor', '{"command":"view","path":"/a","security_risk":"EXTREME"}', /LOW, MEDIUM or HIGH/],
  ['file_editor', '{"command":"view","path":"/a","security_risk":3}', /LOW, MEDIUM or HIGH/],
])('a call of %.20s with %.60s is an error and stays as it was', (name, args, error) => {
  const received = call(name, args)
  const read = parseToolCall(received, tools)
  expect(read.kind).toBe('error')
  expect(read.kind === 'error' && read.error).toMatch(error)
  expect(read.tool_call).toBe(received)
})

test('a tool that only reads has no risk, whatever the call says', () => {
  for (const security_risk of ['HIGH', 'nonsense'])
    expect(parseToolCall(call('glob', { pattern: '*', security_risk }), tools)).toMatchObject({
      kind: 'call',
      security_risk: 'UNKNOWN',
    })
  expect(parseToolCall(call('file_editor', { command: 'view', path: '/' }), tools)).toMatchObject({
    security_risk: 'UNKNOWN',
    summary: undefined,
  })
})

test('what was read from a repaired call reads the same again', () => {
  const names = fc.constantFrom('file_editor', 'str_replace', 'glob', 'task_tracker', 'think', 'think<|x|>')
  const values = fc.oneof(fc.jsonValue(), fc.constantFrom('view', 'LOW', '[1,2]', '{"a":1}', '/a', 'true'))
  const keys = fc.constantFrom(
    'command',
    'path',
    'pattern',
    'thought',
    'risk',
    'summary',
    'view_range',
    'task_list',
  )
  fc.assert(
    fc.property(names, fc.dictionary(keys, values), fc.boolean(), (name, args, isRaw) => {
      const json = JSON.stringify(args)
      const first = parseToolCall(call(name, isRaw ? json.replaceAll('\\n', '\n') : json), tools)
      if (first.kind === 'error') return
      const second = parseToolCall(first.tool_call, tools)
      expect(second).toMatchObject({ kind: 'call', action: first.action, security_risk: first.security_risk })
      expect(second.tool_call).toBe(first.tool_call)
    }),
    { numRuns: 1000 },
  )
})

test('valid JSON is left as it is', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 2, '\t', '\n'), (value, space) => {
      const text = JSON.stringify(value, null, space)
      expect(repairJson(text)).toEqual({ value: JSON.parse(text), isValidJson: true })
    }),
  )
})

test('raw control characters in strings are what they are', () => {
  const strings = fc.array(fc.constantFrom('a', '\n', '\t', '\u0001', '"', '\\', '{', ',', 'ä'))
  fc.assert(
    fc.property(strings, strings, (key, value) => {
      const object = { [key.join('')]: [value.join('')] }
      const raw = JSON.stringify(object, null, 1).replaceAll(
        /\\(\\|n|t|u0001)/g,
        (whole, found) => ({ n: '\n', t: '\t', u0001: '\u0001' })[String(found)] ?? whole,
      )
      expect(repairJson(raw)?.value).toEqual(object)
    }),
  )
})

test('any text is repaired or not, and never throws', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      repairJson(text)
    }),
  )
  expect(repairJson('{"a":"b')).toBeUndefined()
  expect(repairJson(`{"a":"${'\n'.repeat(300_000)}"}`)?.value).toEqual({ a: '\n'.repeat(300_000) })
})

const schema = {
  type: 'object',
  properties: {
    list: { type: 'array', items: { type: 'object', properties: { done: { type: 'boolean' } } } },
    count: { type: 'integer' },
    share: { anyOf: [{ type: 'number' }, { type: 'null' }] },
    flag: { type: 'boolean' },
    object: { type: 'object' },
    text: { type: 'string' },
    either: { type: ['string', 'array'] },
    any: {},
  },
  required: ['count'],
}

test.each([
  [{ list: '[{"done":"True"}]' }, { list: [{ done: true }] }],
  [{ list: ['{"done":false}', { done: 'false' }] }, { list: [{ done: false }, { done: false }] }],
  [
    { count: '3', share: ' 0.5 ', flag: 'FALSE' },
    { count: 3, share: 0.5, flag: false },
  ],
  [
    { count: '3.5', flag: '1', list: '{}' },
    { count: '3.5', flag: '1', list: '{}' },
  ],
  [{ object: '{"a":"x\ny"}' }, { object: { a: 'x\ny' } }],
  [
    { text: '[1]', either: '[1]', any: '[1]', unknown: '[1]' },
    { text: '[1]', either: '[1]', any: '[1]', unknown: '[1]' },
  ],
  [
    { share: 'null', flag: null, text: null, count: null },
    { share: null, count: null },
  ],
  [
    { any: null, unknown: null },
    { any: null, unknown: null },
  ],
])('%j is read as %j', (args, expected) => {
  expect(repairTypes(args, schema)).toEqual(expected)
})

test('what fits already is not changed', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom('text', 'any', 'unknown', 'either'), fc.string()), (args) => {
      expect(repairTypes(args, schema)).toEqual(args)
    }),
  )
})

test.each([
  'security_risk',
  'securityRisk',
  'security-risk',
  'risk',
  'secuirty_risk',
  'Security Risk',
  'risk_level',
])('%s is read as the risk', (name) => {
  expect(extractCommonParameters({ [name]: 'LOW', path: '/a', summary: 's' })).toEqual({
    args: { path: '/a' },
    security_risk: 'LOW',
    summary: 's',
    normalizedArgs: { security_risk: 'LOW', path: '/a', summary: 's' },
  })
})

test.each(['path', 'asterisk', 'score_risk_free', 'brisk', 'secret'])(
  '%s is not read as the risk',
  (name) => {
    expect(extractCommonParameters({ [name]: 'LOW' })).toMatchObject({
      args: { [name]: 'LOW' },
      security_risk: undefined,
    })
  },
)

test('a parameter of the tool itself is not extracted', () => {
  const parameters = { properties: { risk: {}, summary: {} } }
  const input = { risk: 'LOW', summary: 's' }
  expect(extractCommonParameters(input, parameters)).toEqual({
    args: input,
    security_risk: undefined,
    summary: undefined,
    normalizedArgs: input,
  })
})

test('the parameters for a model include the common ones, as optional', () => {
  const own = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }
  const common = addCommonParameters(own, { hasRisk: true })
  expect(common).toMatchObject({
    type: 'object',
    required: ['a'],
    properties: {
      a: own.properties.a,
      security_risk: { enum: ['LOW', 'MEDIUM', 'HIGH'] },
      summary: { type: 'string' },
    },
  })
  expect(Object.keys(Object(common.properties))).toEqual(['a', 'security_risk', 'summary'])
  expect(common).toHaveProperty('properties.security_risk.description')
  expect(common).toHaveProperty('properties.summary.description')
  expect(addCommonParameters(own, { hasRisk: true, isDescribed: false }).properties).toEqual({
    ...own.properties,
    security_risk: { type: 'string', enum: ['LOW', 'MEDIUM', 'HIGH'] },
    summary: { type: 'string' },
  })
  expect(addCommonParameters(own, { hasRisk: false }).properties).not.toHaveProperty('security_risk')
  const withSummary = { type: 'object', properties: { summary: { type: 'number' } } }
  expect(addCommonParameters(withSummary, { hasRisk: false }).properties).toEqual(withSummary.properties)
})

const known = new Set(['terminal', 'file_editor', 'think'])

test.each([
  ['bash', { command: 'ls -l', summary: 's' }, 'terminal', { command: 'ls -l', summary: 's' }],
  ['execute_bash', { cmd: 'ls' }, 'terminal', { command: 'ls' }],
  ['command', {}, 'terminal', {}],
  ['git', { command: 'status' }, 'terminal', { command: 'git status' }],
  ['git', { command: 'git status' }, 'terminal', { command: 'git status' }],
  ['git', {}, 'terminal', { command: 'git' }],
  ['reset', {}, 'terminal', { command: '', reset: true }],
  ['reset', { command: 'x' }, 'terminal', { command: 'reset x' }],
  ['ls', { security_risk: 'LOW' }, 'terminal', { command: 'ls', security_risk: 'LOW' }],
  ['pwd', {}, 'terminal', { command: 'pwd' }],
  ['find', {}, 'terminal', { command: 'find' }],
  [
    'grep',
    { pattern: "it's", path: '-x y', include: '*.ts', summary: 's' },
    'terminal',
    { command: "grep -rnIE --include='*.ts' -e 'it'\\''s' -- '-x y'", summary: 's' },
  ],
  ['str_replace_editor', { command: 'view', path: '/a' }, 'file_editor', { command: 'view', path: '/a' }],
  [
    'str_replace',
    { path: '/a', old_str: 'a', new_str: 'b' },
    'file_editor',
    { command: 'str_replace', path: '/a', old_str: 'a', new_str: 'b' },
  ],
  [
    'file_editor',
    { path: '/a', file_text: '' },
    'file_editor',
    { command: 'create', path: '/a', file_text: '' },
  ],
  [
    'file_editor',
    { path: '/a', insert_line: 0, new_str: '' },
    'file_editor',
    { command: 'insert', path: '/a', insert_line: 0, new_str: '' },
  ],
  [
    'file_editor',
    { path: '/a', old_str: null },
    'file_editor',
    { command: 'view', path: '/a', old_str: null },
  ],
  ['think<|channel|>json', { thought: 't' }, 'think', { thought: 't' }],
  ['file_editor{"x"', { path: '/a' }, 'file_editor', { command: 'view', path: '/a' }],
  ['bash</tool>', { command: 'ls' }, 'terminal', { command: 'ls' }],
])('%s with %j is meant as %s with %j', (name, args, expected, repaired) => {
  expect(repairCall(name, args, known)).toEqual({ name: expected, args: repaired })
})

test.each([
  ['terminal', { command: 'ls' }],
  ['think', { thought: 't' }],
  ['grep', {}],
  ['rm', {}],
  ['', {}],
  ['<bash>', { command: 'ls' }],
  ['file_editor', { command: 'view', path: '/a' }],
  ['file_editor', {}],
])('%s with %j is not repaired', (name, args) => {
  expect(repairCall(name, args, known)).toBeUndefined()
})

test('no call is repaired into a tool that is missing', () => {
  for (const name of ['bash', 'str_replace', 'ls', 'git'])
    expect(repairCall(name, { command: 'x', path: 'y' }, new Set(['think']))).toBeUndefined()
})

test.each([
  [{ wait_for: 'Ready' }, 'Ready'],
  [{ wait_for: ' ' }, undefined],
  [{ wait_for: null }, undefined],
  [{}, undefined],
])('a call %j to read a page waits for %j', (args, expected) => {
  const tool_call = call('browser_get_state', args)
  const action = { kind: 'BrowserGetStateAction', include_screenshot: false }
  expect(findAwaitedText({ tool_call, action })).toBe(expected)
  expect(findAwaitedText({ tool_call, action: { kind: 'BrowserListTabsAction' } })).toBeUndefined()
})
