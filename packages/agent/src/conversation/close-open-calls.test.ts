import { afterAll, beforeAll, expect, test } from 'vitest'
import { settle } from './close-open-calls.ts'
import { statusUpdate, userMessage } from './events/event-drafts.ts'
import { Player, Temporary } from './testing/fixtures.ts'

let place: Temporary

beforeAll(async () => {
  place = await Temporary.open()
})
afterAll(() => place[Symbol.asyncDispose]())

test('a log that was cut off anywhere comes to rest: each call is answered once, and the status is idle', async () => {
  const player = new Player([
    {
      calls: [
        ['think', { thought: 'a' }],
        ['think', { thought: 'b' }],
      ],
    },
    {
      calls: [
        ['no_such_tool', {}],
        ['finish', { message: 'ok' }],
      ],
    },
  ])
  const life = await place.begin({ model: player.open })
  await life.say('go')
  const events = await life.events()
  for (let at = 0; at <= events.length; at++) {
    const id = crypto.randomUUID()
    await place.storage.conversations.create({ id })
    // A part of the log as a fork copies it.
    const part = events.slice(0, at).map((event) => ({ ...event, source: event.source ?? 'environment' }))
    if (part.length > 0) await place.storage.log.append(id, part)
    await settle(place.storage.log, id)
    const stored = await place.storage.log.read(id, 0, 1_000)
    const all = stored.map(({ bytes }) => JSON.parse(bytes.toString()))
    const calls = all.filter(({ kind }) => kind === 'ActionEvent').map(({ tool_call_id }) => tool_call_id)
    const results = all.filter(({ kind }) => /^(Observation|AgentError)Event$/.test(kind))
    expect(results.map(({ tool_call_id }) => tool_call_id).sort()).toEqual(calls.sort())
    const statuses = all.filter(({ key }) => key === 'execution_status').map(({ value }) => value)
    expect(statuses.at(-1) ?? 'idle').toBe('idle')
    await settle(place.storage.log, id)
    expect(await place.storage.log.read(id, 0, 1_000)).toHaveLength(stored.length)
  }
})

test('a log at rest is left as it is', async () => {
  const life = await place.begin({ events: [userMessage('user', 'go'), statusUpdate('idle')] })
  await settle(place.storage.log, life.id)
  expect(await life.events()).toHaveLength(2)
})
