import { expect, test } from 'vitest'
import { readEvents } from './read-events.ts'

const time = '2026-01-01T00:00:00.000000'

function read(events: readonly object[]) {
  const bytes = Buffer.from(JSON.stringify(events))
  const stream = (async function* () {
    yield bytes
  })()
  const body = { stream, isCompressed: false, length: bytes.length }
  return readEvents(body, { add: async () => {} })
}

test('metrics are those of updates of the statistics alone', async () => {
  const value = { usage_to_metrics: { agent: { model_name: 'm', accumulated_cost: 0.5 } } }
  const update = (key: string, more: object = {}) => ({
    ...{ id: `update-${key}`, timestamp: time, source: 'environment' },
    ...{ kind: 'ConversationStateUpdateEvent', key, value, ...more },
  })
  const events = await read([
    update('stats'),
    update('full_state'),
    update('other', { key: 'stats', kind: 'PauseEvent' }),
    update('execution_status', { value: 'finished' }),
  ])
  expect(events.map(({ metrics }) => metrics?.accumulated_cost)).toEqual([
    0.5,
    undefined,
    undefined,
    undefined,
  ])
  expect(events.map(({ status }) => status)).toEqual([undefined, undefined, undefined, 'finished'])
})
