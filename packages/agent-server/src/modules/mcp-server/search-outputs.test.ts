import type { Storage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { matchOutput, searchOutputs } from './search-outputs.ts'

const stored = (event: object, position = 1) => ({ position, bytes: Buffer.from(JSON.stringify(event)) })
const result = (text: string, more: object = {}) => ({
  kind: 'ObservationEvent',
  tool_name: 'terminal',
  timestamp: '2026-01-01T00:00:00',
  observation: { content: [{ type: 'text', text }], command: 'npm test', exit_code: 0, ...more },
})
const all = { text: undefined, failed: false, tool: undefined }

test.for([
  [result('one'), all, true],
  [result('One two'), { ...all, text: 'oNe T' }, true],
  [result('one'), { ...all, text: 'NPM' }, true],
  [result('one'), { ...all, text: 'other' }, false],
  [result('one'), { ...all, failed: true }, false],
  [result('one', { exit_code: 1 }), { ...all, failed: true }, true],
  [result('one', { exit_code: -1, is_error: true }), { ...all, failed: true }, true],
  [result('one'), { ...all, tool: 'file_editor' }, false],
  [{ kind: 'AgentErrorEvent', tool_name: 'terminal', error: 'No such tool' }, { ...all, failed: true }, true],
  [{ kind: 'MessageEvent', source: 'user' }, all, false],
  [{ kind: 'ObservationEvent' }, all, true],
] as const)('%j is found by %j: %s', ([event, search, isFound]) => {
  expect(matchOutput(stored(event), search) !== undefined).toBe(isFound)
})

/** A storage of many conversations, each with one result. */
function storageOf(count: number): Pick<Storage, 'log' | 'conversations'> {
  const items = Array.from({ length: count }, (_, at) => ({ id: String(at), title: null }))
  return {
    log: { search: async () => ({ items: [stored(result('one'))], next_page_id: null }) },
    conversations: { search: async () => ({ items, next_page_id: null }) },
  } as unknown as Pick<Storage, 'log' | 'conversations'>
}

const search = { ...all, since: undefined, until: undefined, status: undefined, tags: undefined }
const whole = { ...search, conversation: undefined, limit: 50, cursor: undefined }

test('a search lets other work through between the pages of logs', async () => {
  let turns = 0
  let isDone = false
  const count = () => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  const found = await searchOutputs(storageOf(20), whole, new AbortController().signal)
  isDone = true
  expect(found.hits).toHaveLength(20)
  expect(turns).toBeGreaterThanOrEqual(20)
})

test('a search ends when its request does', async () => {
  const searching = searchOutputs(storageOf(20), whole, AbortSignal.abort())
  await expect(searching).rejects.toThrow('aborted')
})
