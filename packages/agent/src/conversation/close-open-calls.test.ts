import { afterAll, beforeAll, expect, test } from 'vitest'
import { closeOpenCalls } from './close-open-calls.ts'
import { statusUpdate, userMessage } from './events/event-drafts.ts'
import { ConversationFixtures, FakeModel } from './testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

test('a log truncated anywhere becomes consistent: each open call gets one error, and the status is idle', async () => {
  const player = new FakeModel([
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
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  const events = await life.events()
  for (let at = 0; at <= events.length; at++) {
    const id = crypto.randomUUID()
    await fixtures.storage.conversations.create({ id })
    // A part of the log as a fork copies it.
    const part = events.slice(0, at).map((event) => ({ ...event, source: event.source ?? 'environment' }))
    if (part.length > 0) await fixtures.storage.log.append(id, part)
    await closeOpenCalls(fixtures.storage.log, id)
    const stored = await fixtures.storage.log.read(id, 0, 1_000)
    const all = stored.map(({ bytes }) => JSON.parse(bytes.toString()))
    const calls = all.filter(({ kind }) => kind === 'ActionEvent').map(({ tool_call_id }) => tool_call_id)
    const results = all.filter(({ kind }) => /^(Observation|AgentError)Event$/.test(kind))
    expect(results.map(({ tool_call_id }) => tool_call_id).sort()).toEqual(calls.sort())
    const statuses = all.filter(({ key }) => key === 'execution_status').map(({ value }) => value)
    expect(statuses.at(-1) ?? 'idle').toBe('idle')
    await closeOpenCalls(fixtures.storage.log, id)
    expect(await fixtures.storage.log.read(id, 0, 1_000)).toHaveLength(stored.length)
  }
})

test('a consistent log is left as it is', async () => {
  const life = await fixtures.create({ events: [userMessage('user', 'go'), statusUpdate('idle')] })
  await closeOpenCalls(fixtures.storage.log, life.id)
  expect(await life.events()).toHaveLength(2)
})
