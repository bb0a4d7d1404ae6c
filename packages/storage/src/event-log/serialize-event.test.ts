import { expect, test } from 'vitest'
import type { EventDraft } from './event-log.ts'
import { serializeEvent } from './serialize-event.ts'

const text = (draft: EventDraft) => serializeEvent(draft, 'i', 1_000_000).toString()
const head = '"id":"i","timestamp":"1970-01-01T00:00:01.000000Z"'

test('an event is written with id, timestamp and source in front, its members in order, and kind last', () => {
  const draft = { kind: 'X', b: 1, a: [1, 'ü'], source: 'agent', timestamp: 'ignored', id: 'ignored' }
  expect(text(draft)).toBe(`{${head},"source":"agent","b":1,"a":[1,"ü"],"kind":"X"}`)
})

test('null and undefined members are omitted at every modelled level, empty lists are not', () => {
  const draft = {
    kind: 'MessageEvent',
    source: 'agent',
    sender: null,
    llm_message: {
      role: 'user',
      name: null,
      content: [{ type: 'text', text: 'x', cache_prompt: undefined }, null],
    },
    extended_content: [],
  }
  const message = '{"role":"user","content":[{"type":"text","text":"x"},null]}'
  expect(text(draft)).toBe(
    `{${head},"source":"agent","llm_message":${message},"extended_content":[],"kind":"MessageEvent"}`,
  )
})

test('a required null of a critic result and of a terminal observation stays', () => {
  const critic = { score: 1, message: null, metadata: { a: null, message: null }, other: null }
  const observation = { kind: 'TerminalObservation', command: null, exit_code: null }
  const parsed = JSON.parse(
    text({ kind: 'X', source: 'agent', message: null, command: null, critic_result: critic, observation }),
  )
  expect(parsed.critic_result).toEqual({ score: 1, message: null, metadata: { a: null, message: null } })
  expect(parsed.observation).toEqual({ kind: 'TerminalObservation', command: null })
  expect(parsed).not.toHaveProperty('message')
  expect(parsed).not.toHaveProperty('command')
})

test('free-form JSON keeps its nulls; the same names elsewhere do not', () => {
  const free = { a: null, b: [{ c: null }] }
  const state = { kind: 'ConversationStateUpdateEvent', source: 'environment', key: 'k', value: free }
  expect(JSON.parse(text(state)).value).toEqual(free)
  expect(JSON.parse(text({ ...state, value: null }))).not.toHaveProperty('value')
  const actions = [
    { kind: 'MCPToolAction', data: free },
    { kind: 'BrowserSetStorageAction', storage_state: free },
    { kind: 'Other', data: free, value: free },
  ]
  const written = actions.map(
    (action) => JSON.parse(text({ kind: 'ActionEvent', source: 'agent', action })).action,
  )
  const dropped = { b: [{}] }
  expect(written).toEqual([actions[0], actions[1], { kind: 'Other', data: dropped, value: dropped }])
})

test('members named like those of Object.prototype are members', () => {
  const draft = JSON.parse('{"kind":"X","source":"s","a":{"__proto__":{"x":1},"constructor":2}}')
  expect(text(draft)).toBe(`{${head},"source":"s","a":{"__proto__":{"x":1},"constructor":2},"kind":"X"}`)
})
