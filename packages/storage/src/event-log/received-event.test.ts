import { expect, test } from 'vitest'
import {
  duplicateIssues,
  eventIssues,
  parseEventLine,
  readExecutionStatus,
  toReceivedEvent,
} from './received-event.ts'

const options = { keep: false, last: undefined, now: 1_000_000 }

function parseReceived(text: string, more = {}) {
  const bytes = Buffer.from(text)
  const parsed = parseEventLine(bytes)
  if (parsed.kind === 'issues') throw new Error(parsed.issues[0]?.msg)
  return toReceivedEvent(bytes, parsed.value, { ...options, ...more })
}

test('an event with id and timestamp keeps its bytes', () => {
  const text =
    ' { "kind" : "PauseEvent", "timestamp":"2026-03-01T10:00:00+02:00","id":"a", "source":"user" }\r'
  expect(parseReceived(text)).toMatchObject({
    id: 'a',
    kind: 'PauseEvent',
    source: 'user',
    instant: Date.parse('2026-03-01T08:00:00Z') * 1000,
  })
  expect(parseReceived(text).bytes.toString()).toBe(text)
})

test('a missing id or timestamp is inserted at the front, and the other bytes stay', () => {
  const event = parseReceived('{ "kind":"PauseEvent"}', { last: { instant: 5_000_000 } })
  expect(event.bytes.toString()).toBe(
    `{"id":"${event.id}","timestamp":"1970-01-01T00:00:05.000001Z", "kind":"PauseEvent"}`,
  )
  expect(event.instant).toBe(5_000_001)
  expect(parseReceived('{"id":"a","kind":"PauseEvent"}').bytes.toString()).toBe(
    '{"timestamp":"1970-01-01T00:00:01.000000Z","id":"a","kind":"PauseEvent"}',
  )
})

test('a missing source is the default of the kind', () => {
  expect(parseReceived('{"id":"a","kind":"PauseEvent"}').source).toBe('user')
  expect(parseReceived('{"id":"a","kind":"Condensation"}').source).toBe('environment')
  expect(parseReceived('{"id":"a","kind":"NewKind"}', { keep: true }).source).toBe('')
})

test('with keep, a timestamp that is no date-time sorts at the instant of its predecessor', () => {
  expect(
    parseReceived('{"id":"a","kind":"X","timestamp":"yesterday"}', { keep: true, last: { instant: 77 } })
      .instant,
  ).toBe(77)
})

test.each([
  ['not JSON', '{"kind":', 'json_invalid'],
  ['an array', '[]', 'model_type'],
  ['a text', '"kind"', 'model_type'],
  ['null', 'null', 'model_type'],
  ['nesting without end', `{"a":$'['.repeat(100_000)$']'.repeat(100_000)}`, 'json_invalid'],
])('%s is refused', (_, text, type) => {
  expect(parseEventLine(Buffer.from(text))).toMatchObject({ kind: 'issues', issues: [{ type }] })
})

test('bytes that are not UTF-8 are refused', () => {
  expect(parseEventLine(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]))).toMatchObject({ kind: 'issues' })
})

test('brackets inside a text do not count as nesting', () => {
  expect(parseEventLine(Buffer.from(`{"a":"\\"$'['.repeat(1000)"}`)).kind).toBe('value')
})

test('with keep, kind is required, and kind, id and timestamp are strings', () => {
  expect(eventIssues({ kind: 'Anything', more: 1 }, true)).toEqual([])
  expect(eventIssues({ id: 1, timestamp: null }, true).map(({ loc }) => loc)).toEqual([
    ['kind'],
    ['id'],
    ['timestamp'],
  ])
  expect(eventIssues({ kind: 'PauseEvent', id: '' }, true)).toHaveLength(1)
})

test('readExecutionStatus reads execution_status updates with a known status only', () => {
  const update = { kind: 'ConversationStateUpdateEvent', key: 'execution_status', value: 'finished' }
  expect(readExecutionStatus(update)).toBe('finished')
  expect(readExecutionStatus({ ...update, value: 'nothing' })).toBeUndefined()
  expect(readExecutionStatus({ ...update, key: 'stats' })).toBeUndefined()
})

test('a member twice is told with its place', () => {
  const line = Buffer.from('{"kind":"PauseEvent","source":"user","value":{"a":1,"a":2}}')
  expect(parseEventLine(line)).toMatchObject({ kind: 'value', hasDuplicate: true })
  expect(duplicateIssues(line)).toEqual([
    { loc: ['value', 'a'], msg: 'Duplicate member', type: 'json_duplicate_member' },
  ])
  expect(parseEventLine(Buffer.from('{"kind":"PauseEvent"}'))).toMatchObject({ hasDuplicate: false })
})
