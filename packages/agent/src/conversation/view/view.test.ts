import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Message } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { actionEvent, arbitraryLog, messageEvent, observationEvent } from '../testing/arbitraries.ts'
import { defaultMessageLimits } from './message-limits.ts'
import { Projection } from './projection.ts'
import { type LogEvent, View } from './view.ts'

function viewOf(log: readonly LogEvent[]): View {
  const view = new View()
  for (const event of log) view.add(event)
  return view
}

/** The rule of spec 2.3 in the plainest form: each time from the whole list. */
function plainFold(log: readonly LogEvent[]): string[] {
  const isShown = (kind: string) =>
    /^(SystemPrompt|Message|Action|Observation|AgentError)Event$|^UserRejectObservation$/.test(kind)
  let ids: string[] = []
  const kindOf = (id: string) => log.find((event) => event.id === id)?.kind
  for (const event of log) {
    if (event.kind === 'SystemPromptEvent' && ids.some((id) => kindOf(id) === event.kind)) {
      ids = ids.map((id) => (kindOf(id) === event.kind ? event.id : id))
    } else if (isShown(event.kind)) ids.push(event.id)
    if (event.kind === 'Condensation') {
      ids = ids.filter((id) => !event.forgotten_event_ids?.includes(id))
      const { summary, summary_offset } = event
      if (typeof summary === 'string' && typeof summary_offset === 'number') {
        ids = [...ids.slice(0, summary_offset), `${event.id}-summary`, ...ids.slice(summary_offset)]
      }
    }
    if (event.kind === 'ConversationStateUpdateEvent' && event.key === 'last_user_message_id') {
      const { value } = event
      if (typeof value === 'string' && ids.includes(value) && kindOf(value) === 'MessageEvent') {
        ids = [...ids.filter((id) => id !== value), value]
      }
    }
  }
  return ids
}

test('the view of any log is what the rule says', () => {
  fc.assert(
    fc.property(arbitraryLog, (log) => {
      const view = viewOf(log)
      const ids = plainFold(log)
      expect(view.save()).toEqual(ids)
      expect(view.size).toBe(ids.length)
      const known = [...log.map(({ id }) => id), ...log.map(({ id }) => `${id}-summary`)]
      expect(known.filter((id) => view.has(id)).sort()).toEqual([...ids].sort())
    }),
  )
})

test('a view that is restored from what was saved is the same view, also for what comes after', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryLog, fc.nat(), async (log, at) => {
      const cut = at % (log.length + 1)
      const view = viewOf(log.slice(0, cut))
      const restored = await View.restore(view.save(), async (ids) =>
        ids.map((id) => structuredClone(log.find((event) => event.id === id))),
      )
      expect(restored.events).toEqual(view.events)
      for (const event of log.slice(cut)) {
        view.add(event)
        restored.add(event)
      }
      expect(restored.events).toEqual(view.events)
      expect(restored.messages()).toEqual(view.messages())
    }),
  )
})

test('a saved view that names what the log has not got is refused', async () => {
  const log = [messageEvent('m', 'user', 'Hello')]
  const get = async (ids: readonly string[]) => ids.map((id) => log.find((event) => event.id === id))
  await expect(View.restore(['m', 'gone'], get)).rejects.toThrow('not in the log')
  await expect(View.restore(['m-summary'], get)).rejects.toThrow('not in the log')
})

test('a repeated id is ignored', () => {
  const view = viewOf([messageEvent('m', 'user', 'first'), messageEvent('m', 'user', 'second')])
  expect(view.events).toEqual([messageEvent('m', 'user', 'first')])
})

test('messages are well formed for any log at every step, and equal to those of a new projection', () => {
  fc.assert(
    fc.property(
      arbitraryLog,
      fc.constantFrom(defaultMessageLimits, { chars: 200, tokens: 40 }),
      (log, limits) => {
        const view = new View()
        for (const event of log) {
          view.add(event)
          const messages = view.messages(limits)
          expectWellFormed(messages)
          const projected = new Projection(limits).messages(view.events)
          // `toEqual` alone takes most of the time of this test.
          if (!isDeepStrictEqual(messages, projected)) expect(messages).toEqual(projected)
        }
      },
    ),
    { numRuns: 40 },
  )
})

test('each call that has a result is shown with it, and each message once, in order', () => {
  fc.assert(
    fc.property(arbitraryLog, (log) => {
      const view = viewOf(log)
      const messages = view.messages()
      const users = view.events.filter(
        (event) =>
          event.kind === 'CondensationSummaryEvent' ||
          (event.kind === 'MessageEvent' && event.llm_message.role === 'user'),
      )
      expect(messages.filter(({ role }) => role === 'user')).toHaveLength(users.length)
      const answered = view.events.filter(
        (event) =>
          event.kind === 'ActionEvent' &&
          view.events.some(
            (result, index) =>
              (result.kind === 'ObservationEvent' || result.kind === 'UserRejectObservation') &&
              result.action_id === event.id &&
              index > view.events.indexOf(event),
          ),
      )
      expect(messages.filter(({ role }) => role === 'tool').length).toBeGreaterThanOrEqual(answered.length)
    }),
  )
})

test('a step makes new messages only of what is new', () => {
  const view = viewOf([messageEvent('m', 'user', 'Do it.')])
  for (let n = 0; n < 50; n++) {
    view.add(actionEvent({ id: `a${n}` }))
    view.add(observationEvent({ id: `o${n}`, action_id: `a${n}` }))
    const before = new Set(view.messages())
    view.add(actionEvent({ id: `b${n}` }))
    view.add(observationEvent({ id: `p${n}`, action_id: `b${n}` }))
    const after = view.messages()
    // The call, its result with the mark, and at most the message that had the mark before.
    expect(after.filter((message) => !before.has(message)).length).toBeLessThanOrEqual(3)
    expect(view.messages()).toBe(after)
  }
})

const folder = process.env.SLIPWAY_DATA
if (folder === undefined)
  console.warn('SKIPPED: recorded logs are not shown to a model, because SLIPWAY_DATA names no folder')

test.skipIf(folder === undefined)('every recorded log is shown with its pairs whole', async () => {
  const names = readdirSync(folder ?? '.').filter((name) => name.endsWith('.jsonl'))
  expect(names.length).toBeGreaterThan(0)
  for (const name of names) {
    const lines = readFileSync(join(folder ?? '.', name), 'utf8').split('\n')
    const log: LogEvent[] = lines.filter((line) => line !== '').map((line) => JSON.parse(line))
    const view = new View()
    for (const event of log) {
      view.add(event)
      if (event.kind !== 'ActionEvent') expectWellFormed(view.messages())
    }
    const condensations = log.filter(({ kind }) => kind === 'Condensation').length
    const results = view.events.filter(({ kind }) => kind === 'ObservationEvent').length
    const tools = view.messages().filter(({ role }) => role === 'tool').length
    // Whoever condensed this log may have parted pairs; no one else has.
    if (condensations === 0 && !name.startsWith('sdk-')) expect([name, tools]).toEqual([name, results])
    const restored = await View.restore(view.save(), async (ids) =>
      ids.map((id) => log.find((event) => event.id === id)),
    )
    expect(restored.events).toEqual(view.events)
  }
})

/** What every provider asks of a list of messages, and where the cache marks are. */
function expectWellFormed(messages: readonly Message[]): void {
  // One assertion for all: thousands of them would take most of the time.
  const faults: unknown[] = []
  const must = (holds: boolean, ...fault: unknown[]) => {
    if (!holds) faults.push(fault)
  }
  const mustEqual = (actual: unknown, expected: unknown, what: string) =>
    must(isDeepStrictEqual(actual, expected), what, { actual, expected })
  messages.forEach((message, index) => {
    must(message.role !== 'system' || index === 0, 'a system message is the first one', index)
    must(message.content.length + (message.tool_calls?.length ?? 0) > 0, 'a message is not empty', index)
    for (const block of message.content)
      must(block.type !== 'text' || block.text.trim() !== '', 'a text is not empty', index)
    const { tool_calls: calls } = message
    if (calls !== undefined && calls !== null) {
      must(calls.length > 0, 'there are calls', index)
      const results = messages.slice(index + 1, index + 1 + calls.length)
      const expected = calls.map(({ id }) => ['tool', id])
      mustEqual(
        results.map(({ role, tool_call_id }) => [role, tool_call_id]),
        expected,
        `results of message ${index}`,
      )
    }
  })
  const calls = messages.flatMap(({ tool_calls }) => tool_calls ?? [])
  mustEqual(messages.filter(({ role }) => role === 'tool').length, calls.length, 'number of results')
  const marked = messages.flatMap(({ content }, index) =>
    content.flatMap(({ cache_prompt }, block) => (cache_prompt ? [[index, block]] : [])),
  )
  const ends = messages.flatMap(({ role, content }, index) => {
    const next = messages[index + 1]?.role
    const isEnd = (role === 'user' || role === 'tool') && (next === undefined || next === 'assistant')
    return isEnd ? [[index, content.length - 1]] : []
  })
  const start = messages[0]?.role === 'system' ? [[0, 0]] : []
  mustEqual(marked, [...start, ...ends.slice(-3)], 'cache points')
  expect(faults).toEqual([])
}
