import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { partsOf, temporaryDirectory } from '../../testing/fixtures.ts'
import {
  agentDefinition,
  contentText,
  finishCall,
  TaskFixture,
  taskCalls,
  terminalCall,
  waitUntil,
} from '../../testing/task-fixture.ts'
import { ConversationInfoReader } from './conversation-info.ts'
import { forkConversation } from './lifecycle/fork.ts'
import { removeConversation } from './lifecycle/remove.ts'

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

test('a task is done by its own conversation, in the same workspace, and its last word is the result', async () => {
  await scene.saveScriptedModel('helper', [
    terminalCall('echo made > by-helper; pwd'),
    finishCall('It is made.'),
  ])
  const parent = await scene.runConversation(
    [giveTask('Make a file.', { description: 'Make it' }), finishCall('Done.')],
    helper,
  )
  expect(parent.state.status).toBe('finished')
  const [result] = await scene.readTaskResults(parent.id)
  expect(result).toEqual({
    content: [
      { cache_prompt: false, type: 'text', text: 'It is made.' },
      {
        cache_prompt: false,
        type: 'text',
        text: expect.stringContaining('task_00000001, helper: completed'),
      },
    ],
    is_error: false,
    task_id: 'task_00000001',
    subagent: 'helper',
    status: 'completed',
    kind: 'TaskObservation',
  })
  const action = (await scene.readEvents(parent.id)).find(({ kind }) => kind === 'ActionEvent')
  expect(action).toMatchObject({
    tool_name: 'task',
    action: {
      prompt: 'Make a file.',
      subagent_type: 'helper',
      description: 'Make it',
      kind: 'TaskAction',
    },
  })
  const [child = ''] = await scene.listChildren(parent.id)
  const [record] = await scene.storage.conversations.get([child])
  expect(record).toMatchObject({
    title: 'Make it',
    status: 'finished',
    tags: { task: 'task_00000001', subagent: 'helper' },
  })
  expect(JSON.parse(record?.request ?? '{}')).toMatchObject({
    parent_conversation_id: parent.id,
    task: { id: 'task_00000001', subagent: 'helper', depth: 1 },
    workspace: { working_dir: scene.workspace },
  })
  const said = (await scene.readEvents(child)).filter(({ kind }) => kind === 'MessageEvent')
  expect(
    said.map(({ source, llm_message }) => [source, contentText(Reflect.get(Object(llm_message), 'content'))]),
  ).toEqual([['user', 'Make a file.']])
})

test('what a task has used counts as use of the conversation, once, also after it was gone on with', async () => {
  const priced = { input_cost_per_token: 0.001, output_cost_per_token: 0 }
  const usage = { prompt_tokens: 100, completion_tokens: 10 }
  await scene.saveScriptedModel(
    'helper',
    [
      { text: 'One.', usage },
      { text: 'Two.', usage },
    ],
    priced,
  )
  const parent = await scene.runConversation(
    [giveTask('Begin.'), giveTask('Continue.', { resume: 'task_00000001' }), finishCall('Done.')],
    helper,
  )
  const results = await scene.readTaskResults(parent.id)
  expect(results.map(({ content }) => contentText(content).split('\n')[0])).toEqual(['One.', 'Two.'])
  const metrics = parent.stats.toJSON().usage_to_metrics['task:task_00000001']
  expect(metrics).toMatchObject({
    accumulated_cost: 0.2,
    accumulated_token_usage: { prompt_tokens: 200, completion_tokens: 20 },
  })
  expect(await scene.listChildren(parent.id)).toHaveLength(1)
  const [record] = await scene.storage.conversations.get([parent.id])
  expect(JSON.parse(record?.stats ?? '{}').usage_to_metrics['task:task_00000001']).toEqual(metrics)
})

test('the model is told of the agents only when it has the tool, those that cannot work here left out', async () => {
  const given = {
    agent_definitions: [
      agentDefinition('helper', { when_to_use_examples: ['when help is needed'] }),
      agentDefinition('stranger', { tools: ['nonesuch'] }),
    ],
  }
  const promptOf = async (id: string) => {
    const prompt = (await scene.readEvents(id)).find(({ kind }) => kind === 'SystemPromptEvent')
    return JSON.stringify(prompt)
  }
  const told = await promptOf((await scene.runConversation([finishCall('Done.')], given)).id)
  expect(told).toContain('- helper: Does what helper does.\\n  - For example: when help is needed')
  expect(told).toContain('- code-explorer: ')
  expect(told).toContain('"kind":"TaskTool"')
  expect(told).not.toContain('stranger')
  expect(scene.logLines.join()).toContain(
    'The agent stranger names tools that this server does not have: nonesuch',
  )
  for (const agent of [{ tools: [] }, { filter_tools_regex: '^x' }]) {
    const untold = await promptOf(
      (await scene.runConversation([finishCall('Done.')], { ...given, agent })).id,
    )
    expect(untold).not.toContain('helper')
    expect(untold).not.toContain('TaskTool')
  }
})

test.each([
  [{ prompt: 'x', subagent_type: 'nobody' }, "There is no agent 'nobody'. Available: helper, lost, "],
  [{ prompt: 'x', subagent_type: 'lost' }, 'names an LLM profile that is missing: gone'],
  [{ prompt: 'x', subagent_type: 'stranger' }, 'names tools that this server does not have: nonesuch'],
  [{ prompt: ' ', subagent_type: 'helper' }, 'The prompt is empty'],
  [{ prompt: 'x', resume: 'task_00000009' }, "There is no task 'task_00000009'. There are none yet."],
])(
  'a task that cannot be begun is an error with its reason, and leaves nothing behind: %j',
  async (args, reason) => {
    const parent = await scene.runConversation([taskCalls(args), finishCall('Done.')], {
      agent_definitions: [
        agentDefinition('helper'),
        agentDefinition('lost', { model: 'gone' }),
        agentDefinition('stranger', { tools: ['nonesuch'] }),
      ],
    })
    const [result] = await scene.readTaskResults(parent.id)
    expect(result).toMatchObject({ is_error: true, status: 'error', task_id: '' })
    expect(contentText(result?.content)).toContain(reason)
    expect(await scene.listChildren(parent.id)).toEqual([])
    expect(parent.state.status).toBe('finished')
  },
)

test.each([
  [
    agentDefinition('helper'),
    [{ error: { code: 'LLMBadRequestError', detail: 'It is too much.' } }],
    'The agent failed. LLMBadRequestError: It is too much.',
  ],
  [
    agentDefinition('helper', { max_iteration_per_run: 2 }),
    [terminalCall('true'), terminalCall('true'), terminalCall('true')],
    'The agent failed. MaxIterationsReached: Agent reached maximum iterations limit (2).',
  ],
  [agentDefinition('helper'), Array.from({ length: 6 }, () => terminalCall('echo same')), 'went in circles'],
])('an agent that fails or reaches a limit is an error with its reason', async (agent, script, reason) => {
  await scene.saveScriptedModel('helper', script)
  const parent = await scene.runConversation([giveTask('Do it.'), finishCall('Done.')], {
    agent_definitions: [agent],
  })
  const [result] = await scene.readTaskResults(parent.id)
  expect(result).toMatchObject({ is_error: true, status: 'error', task_id: 'task_00000001' })
  expect(contentText(result?.content)).toContain(reason)
  expect(parent.state.status).toBe('finished')
})

test('max_turns of the call bounds the steps of a task, though models are not told of it', async () => {
  await scene.saveScriptedModel('helper', [terminalCall('true'), terminalCall('true'), finishCall('Late.')])
  const parent = await scene.runConversation(
    [giveTask('Do it.', { max_turns: 1 }), finishCall('Done.')],
    helper,
  )
  const [result] = await scene.readTaskResults(parent.id)
  expect(contentText(result?.content)).toContain('MaxIterationsReached')
})

test('a task stops after the step that used up its budget, unless its last word was spoken by then', async () => {
  const priced = { input_cost_per_token: 1, output_cost_per_token: 0 }
  const usage = { prompt_tokens: 2, completion_tokens: 1 }
  const more = { agent_definitions: [agentDefinition('helper', { max_budget_per_run: 3 })] }
  const steps = ['1', '2', '3', '4'].map((step) => ({ ...terminalCall(`echo ${step}`), usage }))
  await scene.saveScriptedModel('helper', [...steps, { text: 'Late.', usage }], priced)
  const parent = await scene.runConversation([giveTask('Do it.'), finishCall('Done.')], more)
  const [result] = await scene.readTaskResults(parent.id)
  expect(result).toMatchObject({ is_error: true })
  expect(contentText(result?.content)).toContain('it has used its budget of 3 dollars')
  const child = await scene.waitForChild(parent.id)
  expect((await scene.readEvents(child.id)).filter(({ kind }) => kind === 'ActionEvent')).toHaveLength(2)
  for (const last of [{ text: 'In time.' }, finishCall('In time.')]) {
    await scene.saveScriptedModel(
      'helper',
      [
        { ...terminalCall('true'), usage },
        { ...last, usage },
      ],
      priced,
    )
    const { id } = await scene.runConversation([giveTask('Do it.'), finishCall('Done.')], more)
    expect(await scene.readTaskResults(id)).toMatchObject([{ is_error: false, status: 'completed' }])
  }
})

test('tasks of one answer are done beside each other as far as the agent may, each under its own number', async () => {
  const meet = (mine: string, other: string) =>
    terminalCall(
      `touch ${mine}; for i in $(seq 400); do [ -e ${other} ] && break; sleep 0.05; done; [ -e ${other} ] && echo met`,
    )
  await scene.saveScriptedModel('left', [meet('l', 'r'), finishCall('Left.')])
  await scene.saveScriptedModel('right', [meet('r', 'l'), finishCall('Right.')])
  const parent = await scene.runConversation(
    [
      taskCalls({ prompt: 'x', subagent_type: 'left' }, { prompt: 'x', subagent_type: 'right' }),
      finishCall('Done.'),
    ],
    {
      agent: { tool_concurrency_limit: 2 },
      agent_definitions: [agentDefinition('left'), agentDefinition('right')],
    },
  )
  const results = await scene.readTaskResults(parent.id)
  expect(results.map(({ content }) => contentText(content).split('\n')[0])).toEqual(['Left.', 'Right.'])
  expect(results.map(({ task_id }) => task_id).sort()).toEqual(['task_00000001', 'task_00000002'])
  for (const child of await scene.listChildren(parent.id))
    expect(JSON.stringify(await scene.readEvents(child))).toContain('met')
})

test('tasks beside each other stop at the limit of the conversation that they share', async () => {
  const priced = { input_cost_per_token: 1, output_cost_per_token: 0 }
  const usage = { prompt_tokens: 2, completion_tokens: 1 }
  const steps = ['1', '2', '3', '4'].map((step) => ({ ...terminalCall(`echo ${step}`), usage }))
  for (const name of ['left', 'right']) await scene.saveScriptedModel(name, steps, priced)
  const parent = await scene.runConversation(
    [taskCalls(...['left', 'right'].map((subagent_type) => ({ prompt: 'x', subagent_type })))],
    {
      limits: { run: { cost: 5 } },
      agent_definitions: [agentDefinition('left'), agentDefinition('right')],
    },
  )
  const results = await scene.readTaskResults(parent.id)
  expect(results).toHaveLength(2)
  expect(JSON.stringify(results)).toContain('a limit of the conversation that gave it is reached')
  // Each alone would stop at 6.
  expect(parent.stats.cost).toBeLessThan(12)
})

test('where only one run is allowed at a time, a task does not wait for the run that waits for it', async () => {
  await using other = await TaskFixture.open(join(directory.path, 'narrow'), { maxConcurrentRuns: 1 })
  await other.saveScriptedModel('helper', [finishCall('It is done.')])
  const parent = await other.runConversation([giveTask('Do it.'), finishCall('Done.')], helper)
  expect(await other.readTaskResults(parent.id)).toMatchObject([{ status: 'completed' }])
})

test('its own agent gives tasks only when it was given the tool, and not for ever deeper', async () => {
  await scene.saveScriptedModel('plain', [
    taskCalls({ prompt: 'x', subagent_type: 'plain' }),
    finishCall('Alone.'),
  ])
  const flat = await scene.runConversation(
    [taskCalls({ prompt: 'x', subagent_type: 'plain' }), finishCall('Done.')],
    {
      agent_definitions: [agentDefinition('plain')],
    },
  )
  const child = await scene.waitForChild(flat.id)
  expect(await scene.listChildren(child.id)).toEqual([])
  expect(JSON.stringify(await scene.readEvents(child.id))).toContain("Tool 'task' not found")
  await scene.saveScriptedModel('deep', [
    taskCalls({ prompt: 'x', subagent_type: 'deep' }),
    finishCall('Deeper.'),
  ])
  const deep = await scene.runConversation(
    [taskCalls({ prompt: 'x', subagent_type: 'deep' }), finishCall('Done.')],
    {
      agent_definitions: [agentDefinition('deep', { tools: ['task_tool_set'] })],
    },
  )
  let depth = 0
  for (let id: string | undefined = deep.id; id !== undefined; depth++) [id] = await scene.listChildren(id)
  expect(depth).toBe(5)
  expect(await scene.readTaskResults(deep.id)).toMatchObject([{ status: 'completed' }])
})

test('a restart continues counting, and a task from before can be gone on with', async () => {
  await scene.saveScriptedModel('helper', [finishCall('One.'), finishCall('Two.')])
  const { id } = await scene.runConversation(
    [giveTask('Begin.'), finishCall('Done.'), giveTask('Other.'), finishCall('Done.')],
    helper,
  )
  await scene.restart()
  const again = await scene.registry.get(id)
  await again.send({ ...message('More.'), run: true })
  await again.waitUntilIdle()
  expect((await scene.readTaskResults(id)).map(({ task_id }) => task_id)).toEqual([
    'task_00000001',
    'task_00000002',
  ])
})

test('a number is not given twice, when the task was deleted or its result was copied here', async () => {
  await scene.saveScriptedModel('helper', [finishCall('One.')])
  const script = [giveTask('A.'), finishCall('Done.'), giveTask('B.'), finishCall('Done.')]
  const { id } = await scene.runConversation(script, helper)
  const source = await scene.registry.get(id)
  const [first = ''] = await scene.listChildren(id)
  const [record] = await scene.storage.conversations.get([id])
  if (record === undefined) throw new Error('it is there')
  const copy = await forkConversation({ storage: scene.storage, registry: scene.registry }, record, {
    reset_metrics: true,
  })
  await remove(first)
  await scene.restart()
  for (const one of [source.id, copy.id]) {
    const conversation = await scene.registry.get(one)
    await conversation.send({ ...message('More.'), run: true })
    await conversation.waitUntilIdle()
    const ids = (await scene.readTaskResults(one)).map(({ task_id }) => task_id)
    expect(ids).toEqual(['task_00000001', 'task_00000002'])
  }
})

test('with a conversation go its tasks and theirs; who only names it as parent stays', async () => {
  await scene.saveScriptedModel('deep', [
    taskCalls({ prompt: 'x', subagent_type: 'helper' }),
    finishCall('Deeper.'),
  ])
  await scene.saveScriptedModel('helper', [finishCall('Done.')])
  const parent = await scene.runConversation(
    [taskCalls({ prompt: 'x', subagent_type: 'deep' }), finishCall('Done.')],
    {
      agent_definitions: [agentDefinition('deep', { tools: ['task_tool_set'] }), agentDefinition('helper')],
    },
  )
  const [task = ''] = await scene.listChildren(parent.id)
  const [below = ''] = await scene.listChildren(task)
  const friend = await scene.runConversation([finishCall('Done.')], { parent_conversation_id: parent.id })
  expect(await remove(parent.id)).toBe(true)
  const records = await scene.storage.conversations.get([parent.id, task, below, friend.id])
  expect(records.map((record) => record?.id)).toEqual([undefined, undefined, undefined, friend.id])
  expect(await remove(parent.id)).toBe(false)
})

test('a conversation that is deleted in mid-task leaves no task behind', async () => {
  await scene.saveScriptedModel('helper', [terminalCall('touch begun; sleep 600'), finishCall('Late.')])
  const parent = await scene.startConversation([giveTask('Do it.'), finishCall('Done.')], helper)
  const child = await scene.waitForChild(parent.id)
  await waitUntil(() => child.state.pending.size > 0)
  expect(await remove(parent.id)).toBe(true)
  expect(await scene.storage.conversations.get([parent.id, child.id])).toEqual([undefined, undefined])
  await waitUntil(async () => (await scene.registry.peek(child.id)) === undefined)
})

test('a task whose conversation somebody deletes is an error, and the run continues', async () => {
  await scene.saveScriptedModel('helper', [terminalCall('sleep 600'), finishCall('Late.')])
  const parent = await scene.startConversation([giveTask('Do it.'), finishCall('Done.')], helper)
  const child = await scene.waitForChild(parent.id)
  await waitUntil(() => child.state.pending.size > 0)
  await remove(child.id)
  await parent.waitUntilIdle()
  expect(parent.state.status).toBe('finished')
  expect(await scene.readTaskResults(parent.id)).toMatchObject([{ is_error: true, task_id: 'task_00000001' }])
})

async function remove(id: string): Promise<boolean> {
  const { storage, registry, directory } = scene
  return await removeConversation(
    {
      storage,
      registry,
      infoReader: new ConversationInfoReader(storage, directory),
      parts: partsOf({}),
      worktrees: directory,
      environment: {},
    },
    id,
  )
}

function message(text: string) {
  return {
    role: 'user' as const,
    content: [{ type: 'text' as const, text, cache_prompt: false }],
    run: false,
    sender: undefined,
    extended_content: undefined,
  }
}
