import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Conversation } from '@slipway/agent'
import { beforeEach, expect, test } from 'vitest'
import { temporary } from '../testing/fixtures.ts'
import { bash, definition, finish, TaskScene, tasks, textOf, until } from '../testing/task-fixture.ts'

let scene: TaskScene
let place: ReturnType<typeof temporary>
beforeEach(async () => {
  place = temporary()
  scene = await TaskScene.open(place.path)
  return async () => {
    await scene[Symbol.asyncDispose]()
    place[Symbol.dispose]()
  }
})

const helper = { agent_definitions: [definition('helper')] }
const give = (prompt: string, more: object = {}) => tasks({ prompt, subagent_type: 'helper', ...more })
const file = (name: string) => join(scene.workspace, name)
const waits = (child: Conversation) => until(() => child.state.status === 'waiting_for_confirmation')
const accept = { accept: true, reason: '' }
const always = { kind: 'AlwaysConfirm', deadline_seconds: undefined } as const

/** A conversation whose helper is in the middle of a command that does not end by itself. */
async function inMidTask(): Promise<{ parent: Conversation; child: Conversation }> {
  await scene.model('helper', [
    bash('touch begun; sleep 300; touch over'),
    bash('touch later'),
    finish('Late.'),
  ])
  const parent = await scene.begin([give('Do it.'), finish('Done.')], helper)
  const child = await scene.child(parent.id)
  await until(() => existsSync(file('begun')))
  return { parent, child }
}

test('an interruption reaches the agent at once: its call is answered, it is paused, and it does not go on', async () => {
  const { parent, child } = await inMidTask()
  await parent.interrupt()
  expect([parent.state.status, child.state.status]).toEqual(['paused', 'paused'])
  await child.settled()
  expect(child.state.pending.size).toBe(0)
  const events = await scene.events(parent.id)
  expect(events.filter(({ kind }) => kind === 'AgentErrorEvent')).toHaveLength(1)
  expect(await scene.results(parent.id)).toEqual([])
  expect(existsSync(file('later'))).toBe(false)
  // What it has used until then is not lost.
  await until(() => 'task:task_00000001' in parent.stats.toJSON().usage_to_metrics)
})

test.each(['interrupt', 'pause'] as const)(
  '%s that comes while a task is just beginning stops it too',
  async (verb) => {
    await scene.model(
      'helper',
      Array.from({ length: 40 }, (_, at) => bash(`echo ${at} >> steps`)),
    )
    for (let round = 0; round < 12; round++) {
      const parent = await scene.begin([give('Do it.'), finish('Done.')], helper)
      await until(async () => (await scene.children(parent.id)).length > 0 || round % 3 === 0)
      for (let turns = 0; turns < round; turns++) await new Promise((resolve) => setImmediate(resolve))
      await parent[verb]()
      await parent.settled()
      expect(parent.state.status).toBe('paused')
      for (const id of await scene.children(parent.id)) {
        const child = await scene.agents.get(id)
        await child.settled()
        expect(['paused', 'idle']).toContain(child.state.status)
      }
    }
  },
)

test('an interruption after a pause does not wait for the step that the pause waits for', async () => {
  const { parent, child } = await inMidTask()
  await parent.pause()
  expect(child.state.pending.size).toBe(1)
  await parent.interrupt()
  await parent.settled()
  await child.settled()
  expect([parent.state.status, child.state.status]).toEqual(['paused', 'paused'])
  expect([parent.state.pending.size, child.state.pending.size]).toEqual([0, 0])
  expect((await scene.events(parent.id)).filter(({ kind }) => kind === 'AgentErrorEvent')).toHaveLength(1)
  expect(existsSync(file('later'))).toBe(false)
})

test('a pause lets the agent stop after its step, and the task can be gone on with', async () => {
  await scene.model('helper', [
    bash('touch begun; while [ ! -e go ]; do sleep 0.05; done'),
    bash('touch later'),
    finish('Late.'),
    finish('After all.'),
  ])
  const script = [give('Do it.'), give('Go on.', { resume: 'task_00000001' }), finish('Done.')]
  const parent = await scene.begin(script, helper)
  const child = await scene.child(parent.id)
  await until(() => existsSync(file('begun')))
  await parent.pause()
  expect([parent.state.status, child.state.status]).toEqual(['paused', 'paused'])
  await writeFile(file('go'), '')
  await parent.settled()
  expect(existsSync(file('later'))).toBe(false)
  const [result] = await scene.results(parent.id)
  expect(result).toMatchObject({ is_error: true, status: 'error', task_id: 'task_00000001' })
  expect(textOf(result?.content)).toContain('was paused with this conversation')
  await parent.run()
  await parent.settled()
  expect(parent.state.status).toBe('finished')
  expect((await scene.results(parent.id)).map(({ status }) => status)).toEqual(['error', 'completed'])
  expect(await scene.children(parent.id)).toHaveLength(1)
})

test('what is closed in mid-task is paused, parent and child, and nothing is done twice', async () => {
  const { parent, child } = await inMidTask()
  await scene.restart()
  const [again, task] = [await scene.agents.get(parent.id), await scene.agents.get(child.id)]
  expect([again.state.status, task.state.status]).toEqual(['paused', 'paused'])
  expect([again.state.pending.size, task.state.pending.size]).toEqual([0, 0])
  expect(await scene.results(parent.id)).toEqual([])
  await again.run()
  await again.settled()
  expect(again.state.status).toBe('finished')
  expect(await scene.children(parent.id)).toHaveLength(1)
  expect(existsSync(file('later'))).toBe(false)
})

test('what waits for the user in the parent waits in the child, whatever its definition says, and is done when it is accepted', async () => {
  await scene.model('helper', [bash('touch by-child'), finish('It is done.')])
  const parent = await scene.begin([give('Do it.'), finish('Done.')], {
    agent_definitions: [definition('helper', { permission_mode: 'never_confirm' })],
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await waits(parent)
  expect(await scene.children(parent.id)).toEqual([])
  await parent.respond(accept)
  const child = await scene.child(parent.id)
  await waits(child)
  expect(existsSync(file('by-child'))).toBe(false)
  expect(parent.state.status).toBe('running')
  await child.respond(accept)
  await parent.settled()
  expect(existsSync(file('by-child'))).toBe(true)
  expect(await scene.results(parent.id)).toMatchObject([{ status: 'completed' }])
})

test('a child that waits for the user is not closed for resting, however long it takes', async () => {
  await using other = await TaskScene.open(join(place.path, 'short'), { idleMs: 30 })
  await other.model('helper', [bash('true'), finish('It is done.')])
  const parent = await other.begin([give('Do it.'), finish('Done.')], {
    agent_definitions: [definition('helper', { permission_mode: 'always_confirm' })],
  })
  const child = await other.child(parent.id)
  await waits(child)
  await new Promise((resolve) => setTimeout(resolve, 200))
  expect(await other.agents.peek(child.id)).toBe(child)
  await child.respond(accept)
  await parent.settled()
  expect(await other.results(parent.id)).toMatchObject([{ status: 'completed' }])
})

test('what the user rejects in a child ends the task with an error, and is not done', async () => {
  await scene.model('helper', [bash('touch by-child'), finish('It is done.')])
  const parent = await scene.begin([give('Do it.'), finish('Done.')], {
    agent_definitions: [definition('helper', { permission_mode: 'always_confirm' })],
  })
  const child = await scene.child(parent.id)
  await waits(child)
  await child.respond({ accept: false, reason: 'No.' })
  await parent.settled()
  expect(existsSync(file('by-child'))).toBe(false)
  const [result] = await scene.results(parent.id)
  expect(textOf(result?.content)).toContain('The user rejected what the agent was about to do.')
})

test.each(['interrupt', 'pause'] as const)('%s of the parent rejects what waits in a child', async (verb) => {
  await scene.model('helper', [bash('touch by-child'), finish('It is done.')])
  const parent = await scene.begin([give('Do it.'), finish('Done.')], {
    agent_definitions: [definition('helper', { permission_mode: 'always_confirm' })],
  })
  const child = await scene.child(parent.id)
  await waits(child)
  await parent[verb]()
  await parent.settled()
  expect([parent.state.status, child.state.status]).toEqual(['paused', 'paused'])
  expect(child.state.pending.size).toBe(0)
  await child.respond(accept)
  expect(existsSync(file('by-child'))).toBe(false)
})

test('a policy that is set in mid-task holds for the agents that are at work', async () => {
  await scene.model('helper', [
    bash('touch begun; while [ ! -e go ]; do sleep 0.05; done'),
    bash('touch by-child'),
    finish('It is done.'),
  ])
  const parent = await scene.begin([give('Do it.'), finish('Done.')], helper)
  const child = await scene.child(parent.id)
  await until(() => existsSync(file('begun')))
  await parent.setPolicy(always)
  await writeFile(file('go'), '')
  await waits(child)
  expect(existsSync(file('by-child'))).toBe(false)
  await parent.setPolicy({ kind: 'NeverConfirm' })
  await child.respond(accept)
  await parent.settled()
  expect(existsSync(file('by-child'))).toBe(true)
})

test('a child that is just being deleted keeps nobody from pausing its parent or setting its policy', async () => {
  const { parent, child } = await inMidTask()
  await scene.storage.conversations.remove(child.id)
  await parent.setPolicy(always)
  expect(parent.policy.kind).toBe('AlwaysConfirm')
  await parent.pause()
  expect(parent.state.status).toBe('paused')
  await parent.interrupt()
  await parent.settled()
  expect(parent.state.pending.size).toBe(0)
})

test('a task that is gone on with asks as its giver asks now', async () => {
  await scene.model('helper', [finish('One.'), bash('touch by-child'), finish('Two.')])
  const script = [
    give('Do it.'),
    finish('Done.'),
    give('More.', { resume: 'task_00000001' }),
    finish('Done.'),
  ]
  const parent = await scene.play(script, helper)
  await parent.setPolicy(always)
  await parent.send({
    role: 'user',
    content: [{ type: 'text', text: 'More.', cache_prompt: false }],
    run: true,
    sender: undefined,
    extended_content: undefined,
  })
  await waits(parent)
  await parent.respond(accept)
  const child = await scene.child(parent.id)
  await waits(child)
  expect(existsSync(file('by-child'))).toBe(false)
  await child.respond(accept)
  await parent.settled()
  expect((await scene.results(parent.id)).map(({ status }) => status)).toEqual(['completed', 'completed'])
})

test('hooks that watch over the tools of the parent watch over those of the child, and its own besides', async () => {
  const deny = (matcher: string, reason: string) => ({
    pre_tool_use: [{ matcher, hooks: [{ command: `echo ${reason} >&2; exit 2` }] }],
  })
  await scene.model('helper', [bash('touch by-child'), finish('It is done.')])
  await mkdir(file('.openhands'), { recursive: true })
  await writeFile(file('.openhands/hooks.json'), JSON.stringify({ ...deny('terminal', 'of-the-project') }))
  for (const [more, reason] of [
    [{}, 'of-the-project'],
    [{ hook_config: deny('terminal', 'of-the-request') }, 'of-the-request'],
  ] as const) {
    const parent = await scene.play([give('Do it.'), finish('Done.')], { ...helper, ...more })
    const child = await scene.child(parent.id)
    expect(JSON.stringify(await scene.events(child.id))).toContain(reason)
  }
  const own = { agent_definitions: [definition('helper', { hooks: deny('terminal', 'of-the-agent') })] }
  const parent = await scene.play([give('Do it.'), finish('Done.')], { ...own, hook_config: {} })
  const child = await scene.child(parent.id)
  expect(JSON.stringify(await scene.events(child.id))).toContain('of-the-agent')
  expect(existsSync(file('by-child'))).toBe(false)
})

test('a task that somebody else runs is not given something to do beside it', async () => {
  await scene.model('helper', [finish('One.'), bash('touch begun; sleep 300'), finish('Two.')])
  const script = [
    give('Do it.'),
    finish('Done.'),
    give('More.', { resume: 'task_00000001' }),
    finish('Done.'),
  ]
  const parent = await scene.play(script, helper)
  const child = await scene.child(parent.id)
  const content = [{ type: 'text' as const, text: 'By hand.', cache_prompt: false }]
  const message = {
    role: 'user',
    content,
    run: true,
    sender: undefined,
    extended_content: undefined,
  } as const
  await child.send(message)
  await until(() => existsSync(file('begun')))
  await parent.send(message)
  await parent.settled()
  const last = (await scene.results(parent.id)).at(-1)
  expect(textOf(last?.content)).toContain('being worked on already')
  expect(child.state.status).toBe('running')
  await child.interrupt()
})
