import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Conversation } from '@slipway/agent'
import { beforeEach, expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import {
  agentDefinition,
  contentText,
  finishCall,
  TaskFixture,
  taskCalls,
  terminalCall,
  waitUntil,
} from '../../testing/task-fixture.ts'

let scene: TaskFixture
let directory: ReturnType<typeof temporaryDirectory>
beforeEach(async () => {
  directory = temporaryDirectory()
  scene = await TaskFixture.open(directory.path)
  return async () => {
    await scene[Symbol.asyncDispose]()
    directory[Symbol.dispose]()
  }
})

const helper = { agent_definitions: [agentDefinition('helper')] }
const giveTask = (prompt: string, more: object = {}) =>
  taskCalls({ prompt, subagent_type: 'helper', ...more })
const workspacePath = (name: string) => join(scene.workspace, name)
const waitForConfirmation = (child: Conversation) =>
  waitUntil(() => child.state.status === 'waiting_for_confirmation')
const accept = { accept: true, reason: '' }
const alwaysConfirm = { kind: 'AlwaysConfirm', deadline_seconds: undefined } as const

/** A conversation whose helper is in the middle of a command that does not end on its own. */
async function startInterruptibleTask(): Promise<{ parent: Conversation; child: Conversation }> {
  await scene.saveScriptedModel('helper', [
    terminalCall('touch begun; sleep 300; touch over'),
    terminalCall('touch later'),
    finishCall('Late.'),
  ])
  const parent = await scene.startConversation([giveTask('Do it.'), finishCall('Done.')], helper)
  const child = await scene.waitForChild(parent.id)
  await waitUntil(() => existsSync(workspacePath('begun')))
  return { parent, child }
}

test('an interruption reaches the agent at once: its call is answered, it is paused, and it does not continue', async () => {
  const { parent, child } = await startInterruptibleTask()
  await parent.interrupt()
  expect([parent.state.status, child.state.status]).toEqual(['paused', 'paused'])
  await child.waitUntilIdle()
  expect(child.state.pending.size).toBe(0)
  const events = await scene.readEvents(parent.id)
  expect(events.filter(({ kind }) => kind === 'AgentErrorEvent')).toHaveLength(1)
  expect(await scene.readTaskResults(parent.id)).toEqual([])
  expect(existsSync(workspacePath('later'))).toBe(false)
  // What it has used until then is not lost.
  await waitUntil(() => 'task:task_00000001' in parent.stats.toJSON().usage_to_metrics)
})

test.each(['interrupt', 'pause'] as const)(
  '%s that comes while a task is just beginning stops it too',
  async (verb) => {
    await scene.saveScriptedModel(
      'helper',
      Array.from({ length: 40 }, (_, at) => terminalCall(`echo ${at} >> steps`)),
    )
    for (let round = 0; round < 12; round++) {
      const parent = await scene.startConversation([giveTask('Do it.'), finishCall('Done.')], helper)
      await waitUntil(async () => (await scene.listChildren(parent.id)).length > 0 || round % 3 === 0)
      for (let turns = 0; turns < round; turns++) await new Promise((resolve) => setImmediate(resolve))
      await parent[verb]()
      await parent.waitUntilIdle()
      expect(parent.state.status).toBe('paused')
      for (const id of await scene.listChildren(parent.id)) {
        const child = await scene.registry.get(id)
        await child.waitUntilIdle()
        expect(['paused', 'idle']).toContain(child.state.status)
      }
    }
  },
)

test('an interruption after a pause does not wait for the step that the pause waits for', async () => {
  const { parent, child } = await startInterruptibleTask()
  await parent.pause()
  expect(child.state.pending.size).toBe(1)
  await parent.interrupt()
  await parent.waitUntilIdle()
  await child.waitUntilIdle()
  expect([parent.state.status, child.state.status]).toEqual(['paused', 'paused'])
  expect([parent.state.pending.size, child.state.pending.size]).toEqual([0, 0])
  expect((await scene.readEvents(parent.id)).filter(({ kind }) => kind === 'AgentErrorEvent')).toHaveLength(1)
  expect(existsSync(workspacePath('later'))).toBe(false)
})

test('a pause lets the agent stop after its step, and the task can be gone on with', async () => {
  await scene.saveScriptedModel('helper', [
    terminalCall('touch begun; while [ ! -e go ]; do sleep 0.05; done'),
    terminalCall('touch later'),
    finishCall('Late.'),
    finishCall('After all.'),
  ])
  const script = [giveTask('Do it.'), giveTask('Continue.', { resume: 'task_00000001' }), finishCall('Done.')]
  const parent = await scene.startConversation(script, helper)
  const child = await scene.waitForChild(parent.id)
  await waitUntil(() => existsSync(workspacePath('begun')))
  await parent.pause()
  expect([parent.state.status, child.state.status]).toEqual(['paused', 'paused'])
  await writeFile(workspacePath('go'), '')
  await parent.waitUntilIdle()
  expect(existsSync(workspacePath('later'))).toBe(false)
  const [result] = await scene.readTaskResults(parent.id)
  expect(result).toMatchObject({ is_error: true, status: 'error', task_id: 'task_00000001' })
  expect(contentText(result?.content)).toContain('was paused with this conversation')
  await parent.run()
  await parent.waitUntilIdle()
  expect(parent.state.status).toBe('finished')
  expect((await scene.readTaskResults(parent.id)).map(({ status }) => status)).toEqual(['error', 'completed'])
  expect(await scene.listChildren(parent.id)).toHaveLength(1)
})

test('what is closed in mid-task is paused, parent and child, and nothing is done twice', async () => {
  const { parent, child } = await startInterruptibleTask()
  await scene.restart()
  const [again, task] = [await scene.registry.get(parent.id), await scene.registry.get(child.id)]
  expect([again.state.status, task.state.status]).toEqual(['paused', 'paused'])
  expect([again.state.pending.size, task.state.pending.size]).toEqual([0, 0])
  expect(await scene.readTaskResults(parent.id)).toEqual([])
  await again.run()
  await again.waitUntilIdle()
  expect(again.state.status).toBe('finished')
  expect(await scene.listChildren(parent.id)).toHaveLength(1)
  expect(existsSync(workspacePath('later'))).toBe(false)
})

test('what waits for the user in the parent waits in the child, whatever its definition says, and is done when it is accepted', async () => {
  await scene.saveScriptedModel('helper', [terminalCall('touch by-child'), finishCall('It is done.')])
  const parent = await scene.startConversation([giveTask('Do it.'), finishCall('Done.')], {
    agent_definitions: [agentDefinition('helper', { permission_mode: 'never_confirm' })],
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await waitForConfirmation(parent)
  expect(await scene.listChildren(parent.id)).toEqual([])
  await parent.resolveConfirmation(accept)
  const child = await scene.waitForChild(parent.id)
  await waitForConfirmation(child)
  expect(existsSync(workspacePath('by-child'))).toBe(false)
  expect(parent.state.status).toBe('running')
  await child.resolveConfirmation(accept)
  await parent.waitUntilIdle()
  expect(existsSync(workspacePath('by-child'))).toBe(true)
  expect(await scene.readTaskResults(parent.id)).toMatchObject([{ status: 'completed' }])
})

test('a child that waits for the user is not closed for resting, however long it takes', async () => {
  await using other = await TaskFixture.open(join(directory.path, 'short'), { idleMs: 30 })
  await other.saveScriptedModel('helper', [terminalCall('true'), finishCall('It is done.')])
  const parent = await other.startConversation([giveTask('Do it.'), finishCall('Done.')], {
    agent_definitions: [agentDefinition('helper', { permission_mode: 'always_confirm' })],
  })
  const child = await other.waitForChild(parent.id)
  await waitForConfirmation(child)
  await new Promise((resolve) => setTimeout(resolve, 200))
  expect(await other.registry.peek(child.id)).toBe(child)
  await child.resolveConfirmation(accept)
  await parent.waitUntilIdle()
  expect(await other.readTaskResults(parent.id)).toMatchObject([{ status: 'completed' }])
})

test('what the user rejects in a child ends the task with an error, and is not done', async () => {
  await scene.saveScriptedModel('helper', [terminalCall('touch by-child'), finishCall('It is done.')])
  const parent = await scene.startConversation([giveTask('Do it.'), finishCall('Done.')], {
    agent_definitions: [agentDefinition('helper', { permission_mode: 'always_confirm' })],
  })
  const child = await scene.waitForChild(parent.id)
  await waitForConfirmation(child)
  await child.resolveConfirmation({ accept: false, reason: 'No.' })
  await parent.waitUntilIdle()
  expect(existsSync(workspacePath('by-child'))).toBe(false)
  const [result] = await scene.readTaskResults(parent.id)
  expect(contentText(result?.content)).toContain('The user rejected what the agent was about to do.')
})

test.each(['interrupt', 'pause'] as const)('%s of the parent rejects what waits in a child', async (verb) => {
  await scene.saveScriptedModel('helper', [terminalCall('touch by-child'), finishCall('It is done.')])
  const parent = await scene.startConversation([giveTask('Do it.'), finishCall('Done.')], {
    agent_definitions: [agentDefinition('helper', { permission_mode: 'always_confirm' })],
  })
  const child = await scene.waitForChild(parent.id)
  await waitForConfirmation(child)
  await parent[verb]()
  await parent.waitUntilIdle()
  expect([parent.state.status, child.state.status]).toEqual(['paused', 'paused'])
  expect(child.state.pending.size).toBe(0)
  await child.resolveConfirmation(accept)
  expect(existsSync(workspacePath('by-child'))).toBe(false)
})

test('a policy that is set in mid-task holds for the agents that are at work', async () => {
  await scene.saveScriptedModel('helper', [
    terminalCall('touch begun; while [ ! -e go ]; do sleep 0.05; done'),
    terminalCall('touch by-child'),
    finishCall('It is done.'),
  ])
  const parent = await scene.startConversation([giveTask('Do it.'), finishCall('Done.')], helper)
  const child = await scene.waitForChild(parent.id)
  await waitUntil(() => existsSync(workspacePath('begun')))
  await parent.setPolicy(alwaysConfirm)
  await writeFile(workspacePath('go'), '')
  await waitForConfirmation(child)
  expect(existsSync(workspacePath('by-child'))).toBe(false)
  await parent.setPolicy({ kind: 'NeverConfirm' })
  await child.resolveConfirmation(accept)
  await parent.waitUntilIdle()
  expect(existsSync(workspacePath('by-child'))).toBe(true)
})

test('a child that is just being deleted keeps no one from pausing its parent or setting its policy', async () => {
  const { parent, child } = await startInterruptibleTask()
  await scene.storage.conversations.remove(child.id)
  await parent.setPolicy(alwaysConfirm)
  expect(parent.policy.kind).toBe('AlwaysConfirm')
  await parent.pause()
  expect(parent.state.status).toBe('paused')
  await parent.interrupt()
  await parent.waitUntilIdle()
  expect(parent.state.pending.size).toBe(0)
})

test('a task that is gone on with asks as its giver asks now', async () => {
  await scene.saveScriptedModel('helper', [
    finishCall('One.'),
    terminalCall('touch by-child'),
    finishCall('Two.'),
  ])
  const script = [
    giveTask('Do it.'),
    finishCall('Done.'),
    giveTask('More.', { resume: 'task_00000001' }),
    finishCall('Done.'),
  ]
  const parent = await scene.runConversation(script, helper)
  await parent.setPolicy(alwaysConfirm)
  await parent.send({
    role: 'user',
    content: [{ type: 'text', text: 'More.', cache_prompt: false }],
    run: true,
    sender: undefined,
    extended_content: undefined,
  })
  await waitForConfirmation(parent)
  await parent.resolveConfirmation(accept)
  const child = await scene.waitForChild(parent.id)
  await waitForConfirmation(child)
  expect(existsSync(workspacePath('by-child'))).toBe(false)
  await child.resolveConfirmation(accept)
  await parent.waitUntilIdle()
  expect((await scene.readTaskResults(parent.id)).map(({ status }) => status)).toEqual([
    'completed',
    'completed',
  ])
})

test('hooks that watch over the tools of the parent watch over those of the child, and its own besides', async () => {
  const deny = (matcher: string, reason: string) => ({
    pre_tool_use: [{ matcher, hooks: [{ command: `echo ${reason} >&2; exit 2` }] }],
  })
  await scene.saveScriptedModel('helper', [terminalCall('touch by-child'), finishCall('It is done.')])
  await mkdir(workspacePath('.openhands'), { recursive: true })
  await writeFile(
    workspacePath('.openhands/hooks.json'),
    JSON.stringify({ ...deny('terminal', 'of-the-project') }),
  )
  for (const [more, reason] of [
    [{}, 'of-the-project'],
    [{ hook_config: deny('terminal', 'of-the-request') }, 'of-the-request'],
  ] as const) {
    const parent = await scene.runConversation([giveTask('Do it.'), finishCall('Done.')], {
      ...helper,
      ...more,
    })
    const child = await scene.waitForChild(parent.id)
    expect(JSON.stringify(await scene.readEvents(child.id))).toContain(reason)
  }
  const own = { agent_definitions: [agentDefinition('helper', { hooks: deny('terminal', 'of-the-agent') })] }
  const parent = await scene.runConversation([giveTask('Do it.'), finishCall('Done.')], {
    ...own,
    hook_config: {},
  })
  const child = await scene.waitForChild(parent.id)
  expect(JSON.stringify(await scene.readEvents(child.id))).toContain('of-the-agent')
  expect(existsSync(workspacePath('by-child'))).toBe(false)
})

test('a task that somebody else runs is not given something to do beside it', async () => {
  await scene.saveScriptedModel('helper', [
    finishCall('One.'),
    terminalCall('touch begun; sleep 300'),
    finishCall('Two.'),
  ])
  const script = [
    giveTask('Do it.'),
    finishCall('Done.'),
    giveTask('More.', { resume: 'task_00000001' }),
    finishCall('Done.'),
  ]
  const parent = await scene.runConversation(script, helper)
  const child = await scene.waitForChild(parent.id)
  const content = [{ type: 'text' as const, text: 'By hand.', cache_prompt: false }]
  const message = {
    role: 'user',
    content,
    run: true,
    sender: undefined,
    extended_content: undefined,
  } as const
  await child.send(message)
  await waitUntil(() => existsSync(workspacePath('begun')))
  await parent.send(message)
  await parent.waitUntilIdle()
  const last = (await scene.readTaskResults(parent.id)).at(-1)
  expect(contentText(last?.content)).toContain('being worked on already')
  expect(child.state.status).toBe('running')
  await child.interrupt()
})
