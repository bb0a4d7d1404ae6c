import { setTimeout as sleep } from 'node:timers/promises'
import type { Conversation } from '@slipway/agent'
import { Problem } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import {
  agentDefinition,
  finishCall,
  TaskFixture,
  taskCalls,
  terminalCall,
} from '../../testing/task-fixture.ts'

type Verb = 'run' | 'pause' | 'interrupt' | 'ask' | 'trust' | 'accept' | 'reject' | 'restart'
interface Step {
  readonly verb: Verb
  readonly afterMs: number
}

const steps = fc.array(
  fc.record({
    verb: fc.constantFrom<Verb>('run', 'pause', 'interrupt', 'ask', 'trust', 'accept', 'reject', 'restart'),
    afterMs: fc.integer({ min: 0, max: 60 }),
  }),
  { minLength: 1, maxLength: 8 },
)

const policies = {
  ask: { kind: 'AlwaysConfirm', deadline_seconds: undefined },
  trust: { kind: 'NeverConfirm' },
} as const
const results = ['ObservationEvent', 'UserRejectObservation', 'AgentErrorEvent']

/** Each call has one result at most, and exactly one when nothing waits. */
async function findResultMismatches(scene: TaskFixture, conversation: Conversation): Promise<string[]> {
  const events = await scene.readEvents(conversation.id)
  const callsOf = (kinds: readonly string[]) =>
    events
      .filter(({ kind }) => kinds.includes(kind))
      .map((event) => String(Reflect.get(event, 'tool_call_id')))
  const done = callsOf(results)
  const open = new Set([...conversation.state.pending.values()].map((call) => call.tool_call_id))
  return callsOf(['ActionEvent']).flatMap((call) => {
    const count = done.filter((one) => one === call).length
    return count === (open.has(call) ? 0 : 1) ? [] : [`${call} has ${count} results`]
  })
}

async function applyCommand(scene: TaskFixture, id: string, verb: Verb): Promise<void> {
  if (verb === 'restart') return await scene.restart()
  const parent = await scene.registry.get(id)
  const all = [parent]
  for (const child of await scene.listChildren(id)) all.push(await scene.registry.get(child))
  const response = { accept: verb === 'accept', reason: 'No.' }
  if (verb === 'accept' || verb === 'reject') for (const one of all) await one.resolveConfirmation(response)
  else if (verb === 'ask' || verb === 'trust') await parent.setPolicy(policies[verb])
  else
    await parent[verb]().catch((error: unknown) => {
      // It is running already.
      if (!(error instanceof Problem)) throw error
    })
}

test('whatever is done to a conversation and when, no task outlives it, and no call has two results', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (walk: readonly Step[]) => {
      using place = temporaryDirectory()
      await using scene = await TaskFixture.open(place.path)
      const work = ['1', '2', '3', '4'].map((at) => terminalCall(`echo ${at} >> done; sleep 0.02`))
      for (const name of ['left', 'right'])
        await scene.saveScriptedModel(name, [...work, finishCall(`It is ${name}.`), ...work])
      const both = taskCalls({ prompt: 'x', subagent_type: 'left' }, { prompt: 'x', subagent_type: 'right' })
      const { id } = await scene.startConversation(
        [both, taskCalls({ prompt: 'x', resume: 'task_00000001' }), both, finishCall('Done.')],
        {
          agent: { tool_concurrency_limit: 2 },
          agent_definitions: [agentDefinition('left'), agentDefinition('right')],
        },
      )
      for (const { verb, afterMs } of walk) {
        await sleep(afterMs)
        await applyCommand(scene, id, verb)
      }
      const parent = await scene.registry.get(id)
      await parent.interrupt()
      await parent.waitUntilIdle()
      expect(parent.state.status).not.toBe('running')
      expect(await findResultMismatches(scene, parent)).toEqual([])
      const children = await scene.listChildren(id)
      for (const one of children) {
        const child = await scene.registry.get(one)
        await child.waitUntilIdle()
        expect(child.state.status).not.toBe('running')
        expect(await findResultMismatches(scene, child)).toEqual([])
      }
      const records = await scene.storage.conversations.get(children)
      const numbers = records.map((record) => record?.tags.task)
      expect(new Set(numbers).size).toBe(numbers.length)
    }),
    { numRuns: 12 },
  )
}, 240_000)
