import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Action, must, type Observation } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import type { EventDraft } from '@slipway/storage'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Tool } from '../../tools/core/tool.ts'
import { statusUpdate } from '../events/event-drafts.ts'
import { ConversationWriter } from '../events/writer.ts'
import type { HookVerdict } from '../hooks/hooks.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import { ConversationFixtures, contentText, createLatch, FakeModel, waitUntil } from '../testing/fixtures.ts'
import { executePendingActions } from './execute-actions.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const neverAborted = new AbortController().signal
const emptyVerdict: HookVerdict = {
  isBlocked: false,
  reason: undefined,
  additionalContext: [],
  shouldStop: false,
  failures: [],
  events: [],
}

type Work = (thought: string, signal: AbortSignal) => Promise<string>

/** A tool that does what a test says; the keys of an action are the letters of its thought. */
function runtime(work: Work, hook: () => HookVerdict = () => emptyVerdict): AgentRuntime {
  const thoughtOf = (action: Action) => (action.kind === 'ThinkAction' ? action.thought : '')
  const tool = {
    name: 'think',
    definition: { kind: 'ThinkTool' },
    resources: (action: Action) => [...thoughtOf(action).replace(/[^a-z]/g, '')],
    run: async (action: Action, signal: AbortSignal): Promise<Observation> => ({
      kind: 'ThinkObservation',
      content: [{ type: 'text', text: await work(thoughtOf(action), signal), cache_prompt: false }],
      is_error: false,
    }),
  }
  // All of it that acting looks at.
  return {
    tools: new Map([['think', tool as unknown as Tool]]),
    hooks: { run: async () => hook() },
    rules: { forAction: () => [] },
  } as unknown as AgentRuntime
}

/** A log that runs, with calls that have no result. */
async function begin(
  thoughts: readonly string[],
): Promise<{ readonly writer: ConversationWriter; readonly results: () => Promise<string[]> }> {
  const id = crypto.randomUUID()
  const { log, conversations } = fixtures.storage
  await conversations.create({ id })
  const calls = thoughts.map(
    (thought, index): EventDraft => ({
      kind: 'ActionEvent',
      source: 'agent',
      thought: [],
      action: { kind: 'ThinkAction', thought },
      tool_name: 'think',
      tool_call_id: `c${index}`,
      tool_call: { id: `c${index}`, name: 'think', arguments: '{}', origin: 'completion' },
      llm_response_id: 'r',
    }),
  )
  await log.append(id, [statusUpdate('running'), ...calls])
  const writer = await ConversationWriter.open(id, log)
  const results = async () => {
    const events = (await log.read(id, 1 + thoughts.length, 1_000)).map(({ bytes }) =>
      JSON.parse(bytes.toString()),
    )
    return events.map(({ observation, error, rejection_reason, value }) =>
      String(
        observation === undefined ? (error ?? rejection_reason ?? value) : contentText(observation.content),
      ),
    )
  }
  return { writer, results }
}

test('whatever the calls touch and however long they take: no more than the limit at once, no two of one thing, results in order', async () => {
  const item = fc.record({
    keys: fc.stringMatching(/^[ab]{0,2}$/),
    turns: fc.integer({ min: 0, max: 4 }),
    fails: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(item, { minLength: 1, maxLength: 7 }),
      fc.integer({ min: 1, max: 4 }),
      async (items, limit) => {
        const thoughts = items.map(({ keys }, index) => `${index}${keys}`)
        const { writer, results } = await begin(thoughts)
        const running = new Set<string>()
        const begun: string[] = []
        const work: Work = async (thought) => {
          const item = must(items[Number.parseInt(thought, 10)], 'an item')
          expect(running.size).toBeLessThan(limit)
          for (const other of running) {
            for (const key of item.keys) expect(other).not.toContain(key)
          }
          running.add(thought)
          begun.push(thought)
          if (item.turns > 0) await sleep(item.turns)
          running.delete(thought)
          if (item.fails) throw new Error(`no ${thought}`)
          return `did ${thought}`
        }
        await executePendingActions(
          { clock: systemClock, writer, runtime: runtime(work), limit },
          neverAborted,
        )
        expect(begun).toEqual(thoughts)
        expect(await results()).toEqual(
          thoughts.map((thought, index) =>
            items[index]?.fails ? `Error executing tool 'think': no ${thought}` : `did ${thought}`,
          ),
        )
        expect(writer.state.pending.size).toBe(0)
      },
    ),
    { numRuns: 40 },
  )
})

test('calls without a common resource run concurrently, and each result is written as soon as the earlier ones are', async () => {
  const [first, second, third] = [createLatch(), createLatch(), createLatch()]
  const gates = [first, second, third]
  const { writer, results } = await begin(['0a', '1b', '2c'])
  let begun = 0
  const done = executePendingActions(
    {
      clock: systemClock,
      writer,
      runtime: runtime(async (thought) => {
        begun++
        await gates[Number.parseInt(thought, 10)]?.opened
        return thought
      }),
      limit: 3,
    },
    neverAborted,
  )
  await waitUntil(() => begun === 3)
  second.open()
  await sleep(10)
  expect(await results()).toEqual([])
  first.open()
  await waitUntil(async () => (await results()).length === 2)
  third.open()
  await done
  expect(await results()).toEqual(['0a', '1b', '2c'])
})

test('a pause in a batch keeps the results of what runs and begins nothing more', async () => {
  const waiting = createLatch()
  const { writer, results } = await begin(['0', '1', '2', '3'])
  let begun = 0
  const done = executePendingActions(
    {
      clock: systemClock,
      writer,
      runtime: runtime(async (thought) => {
        begun++
        await waiting.opened
        return thought
      }),
      limit: 2,
    },
    neverAborted,
  )
  await waitUntil(() => begun === 2)
  await writer.write(() => ({ events: [statusUpdate('paused')] }))
  waiting.open()
  await done
  expect(begun).toBe(2)
  expect(await results()).toEqual(['paused', '0', '1'])
  expect(writer.state.pending.size).toBe(2)
})

test('a tool that does not stop on interrupt is abandoned after the grace period, and its result is dropped', async () => {
  const waiting = createLatch()
  const { writer, results } = await begin(['0'])
  const interrupt = new AbortController()
  const done = executePendingActions(
    {
      clock: systemClock,
      writer,
      runtime: runtime(async () => {
        await waiting.opened
        return 'too late'
      }),
      limit: 1,
    },
    interrupt.signal,
  )
  await sleep(10)
  const began = Date.now()
  interrupt.abort()
  await done
  expect(Date.now() - began).toBeGreaterThan(4_000)
  waiting.open()
  await sleep(10)
  expect(await results()).toEqual([])
})

test('a call that was answered while its tool ran gets no second result', async () => {
  const { writer, results } = await begin(['0'])
  const call = must(writer.state.pendingActions()[0], 'a call')
  await executePendingActions(
    {
      clock: systemClock,
      writer,
      runtime: runtime(async () => {
        await writer.write(() => ({
          events: [
            {
              kind: 'AgentErrorEvent',
              source: 'agent',
              tool_name: 'think',
              tool_call_id: call.tool_call_id,
              error: 'gone',
            },
          ],
        }))
        return 'done'
      }),
      limit: 1,
    },
    neverAborted,
  )
  expect(await results()).toEqual(['gone'])
})

test('a tool that is there no more, after a restart with other settings, is an error that names those that are', async () => {
  const { writer, results } = await begin(['0'])
  const bare = { ...runtime(async () => ''), tools: new Map() } as unknown as AgentRuntime
  await executePendingActions({ clock: systemClock, writer, runtime: bare, limit: 1 }, neverAborted)
  expect((await results())[0]).toContain("'think' is not available")
})

test('with a limit of three the calls of an answer run beside each other, as far as they touch different things', async () => {
  const player = new FakeModel([
    {
      calls: [
        ['write_file', { file_path: 'a', content: 'a' }],
        ['write_file', { file_path: 'b', content: 'b' }],
        ['think', { thought: 'hm' }],
        ['terminal', { command: 'echo one; cat a b' }],
        ['terminal', { command: 'echo two' }],
      ],
    },
  ])
  // The first three wait for each other before they are done.
  const meet =
    'echo x >> met; for i in $(seq 400); do [ "$(wc -l < met)" -ge 3 ] && exit 0; sleep 0.02; done; exit 2'
  const life = await fixtures.create({
    model: player.open,
    agent: { tools: [{ name: 'terminal' }, { name: 'write_file' }], tool_concurrency_limit: 3 },
    request: {
      hook_config: { pre_tool_use: [{ matcher: 'write_file|think', hooks: [{ command: meet }] }] },
    },
  })
  await life.sendAndWait('go')
  expect(await life.eventsOfKind('UserRejectObservation')).toEqual([])
  const [actions, results] = [
    await life.eventsOfKind('ActionEvent'),
    await life.eventsOfKind('ObservationEvent'),
  ]
  expect(results.map(({ action_id }) => action_id)).toEqual(actions.map(({ id }) => id))
  expect(contentText(results[3]?.observation.content)).toContain('one')
  expect(contentText(results[4]?.observation.content)).toContain('two')
  expect(await readFile(join(life.workspace, 'b'), 'utf8')).toBe('b')
})
