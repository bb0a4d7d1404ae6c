import { type Action, must, type Observation } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import type { EventDraft } from '@slipway/storage'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Tool } from '../../tools/core/tool.ts'
import { statusUpdate } from '../events/event-drafts.ts'
import { ConversationWriter } from '../events/writer.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import { ConversationFixtures, contentText, createLatch, waitUntil } from '../testing/fixtures.ts'
import { executePendingActions } from './execute-actions.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const definitions: Readonly<Record<string, object>> = {
  read: { kind: 'GrepTool', annotations: { readOnlyHint: true } },
  write: { kind: 'WriteFileTool', annotations: { readOnlyHint: false } },
  task: { kind: 'TaskTool', action_type: 'TaskAction', annotations: { readOnlyHint: false } },
  editor: { kind: 'FileEditorTool', annotations: { readOnlyHint: false } },
}

/**
 * Calls of these tools, in one reply: each runs until it is let go. `editor view` is a command of the tool.
 */
async function begin(calls: readonly string[], limit = 1) {
  const id = crypto.randomUUID()
  const { log, conversations } = fixtures.storage
  await conversations.create({ id })
  const drafts = calls.map((call, index): EventDraft => {
    const [name = '', command = 'x'] = call.split(' ')
    return {
      kind: 'ActionEvent',
      source: 'agent',
      thought: [],
      action: {
        kind: name === 'editor' ? 'FileEditorAction' : 'ThinkAction',
        command,
        thought: String(index),
      },
      tool_name: name,
      tool_call_id: `c${index}`,
      tool_call: { id: `c${index}`, name, arguments: '{}', origin: 'completion' },
      llm_response_id: 'r',
    }
  })
  await log.append(id, [statusUpdate('running'), ...drafts])
  const gates = calls.map(() => createLatch())
  const running = new Set<number>()
  const run = async (action: Action): Promise<Observation> => {
    const index = 'thought' in action ? Number(action.thought) : -1
    running.add(index)
    await must(gates[index], 'a gate').opened
    running.delete(index)
    return {
      kind: 'ThinkObservation',
      content: [{ type: 'text', text: String(index), cache_prompt: false }],
      is_error: false,
    }
  }
  const tools = Object.entries(definitions).map(
    ([name, definition]) =>
      [name, { name, definition, resources: () => [], run } as unknown as Tool] as const,
  )
  // All of it that acting looks at.
  const runtime = {
    tools: new Map(tools),
    hooks: { run: async () => ({ isBlocked: false, shouldStop: false, events: [] }) },
    rules: { forAction: () => [] },
  } as unknown as AgentRuntime
  const writer = await ConversationWriter.open(id, log)
  const done = executePendingActions(
    { clock: systemClock, writer, runtime, limit },
    new AbortController().signal,
  )
  return {
    done,
    /** Waits until just these run. */
    expectRunning: (...indexes: number[]) =>
      waitUntil(() => [...running].sort((one, other) => one - other).join() === indexes.join()),
    finish: (...indexes: number[]) => {
      for (const index of indexes) gates[index]?.open()
    },
    results: async () =>
      (await log.read(id, 1 + calls.length, 1_000)).map(({ bytes }) =>
        contentText(JSON.parse(bytes.toString()).observation.content),
      ),
  }
}

test('reads of one reply run at the same time, and results come in the order of the calls', async () => {
  const work = await begin(['read', 'editor view', 'read'])
  await work.expectRunning(0, 1, 2)
  work.finish(2, 1)
  await work.expectRunning(0)
  expect(await work.results()).toEqual([])
  work.finish(0)
  await work.done
  expect(await work.results()).toEqual(['0', '1', '2'])
})

test('a write waits for the reads before it, and the reads after it wait for the write', async () => {
  const work = await begin(['read', 'read', 'write', 'read', 'read', 'editor create'])
  await work.expectRunning(0, 1)
  work.finish(0)
  await work.expectRunning(1)
  work.finish(1)
  await work.expectRunning(2)
  work.finish(2)
  await work.expectRunning(3, 4)
  work.finish(4, 3)
  await work.expectRunning(5)
  work.finish(5)
  await work.done
  expect(await work.results()).toEqual(['0', '1', '2', '3', '4', '5'])
})

test('four tasks run at the same time, eight reads, and neither beside the other', async () => {
  const work = await begin([...Array(5).fill('task'), ...Array(10).fill('read')])
  await work.expectRunning(0, 1, 2, 3)
  work.finish(0)
  await work.expectRunning(1, 2, 3, 4)
  work.finish(1, 2, 3, 4)
  await work.expectRunning(5, 6, 7, 8, 9, 10, 11, 12)
  work.finish(7)
  await work.expectRunning(5, 6, 8, 9, 10, 11, 12, 13)
  work.finish(...Array.from({ length: 15 }, (_, index) => index))
  await work.done
  expect(await work.results()).toHaveLength(15)
})

test('a higher limit of the agent counts for tasks and reads too', async () => {
  const work = await begin([...Array(6).fill('task'), 'write'], 6)
  await work.expectRunning(0, 1, 2, 3, 4, 5)
  work.finish(0)
  await work.expectRunning(1, 2, 3, 4, 5, 6)
  work.finish(1, 2, 3, 4, 5, 6)
  await work.done
})
