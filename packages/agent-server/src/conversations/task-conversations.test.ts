import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { temporary } from '../testing/fixtures.ts'
import { bash, definition, finish, TaskScene, tasks, textOf, until } from '../testing/task-fixture.ts'
import { Conversations } from './conversation-info.ts'
import { forkConversation } from './fork.ts'
import { removeConversation } from './remove.ts'

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

test('a task is done by a conversation of its own, in the same workspace, and its last word is the result', async () => {
  await scene.model('helper', [bash('echo made > by-helper; pwd'), finish('It is made.')])
  const parent = await scene.play([give('Make a file.', { description: 'Make it' }), finish('Done.')], helper)
  expect(parent.state.status).toBe('finished')
  const [result] = await scene.results(parent.id)
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
  const action = (await scene.events(parent.id)).find(({ kind }) => kind === 'ActionEvent')
  expect(action).toMatchObject({
    tool_name: 'task',
    action: {
      prompt: 'Make a file.',
      subagent_type: 'helper',
      description: 'Make it',
      kind: 'TaskAction',
    },
  })
  const [child = ''] = await scene.children(parent.id)
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
  const said = (await scene.events(child)).filter(({ kind }) => kind === 'MessageEvent')
  expect(
    said.map(({ source, llm_message }) => [source, textOf(Reflect.get(Object(llm_message), 'content'))]),
  ).toEqual([['user', 'Make a file.']])
})

test('what a task has used counts as use of the conversation, once, also after it was gone on with', async () => {
  const priced = { input_cost_per_token: 0.001, output_cost_per_token: 0 }
  const usage = { prompt_tokens: 100, completion_tokens: 10 }
  await scene.model(
    'helper',
    [
      { text: 'One.', usage },
      { text: 'Two.', usage },
    ],
    priced,
  )
  const parent = await scene.play(
    [give('Begin.'), give('Go on.', { resume: 'task_00000001' }), finish('Done.')],
    helper,
  )
  const results = await scene.results(parent.id)
  expect(results.map(({ content }) => textOf(content).split('\n')[0])).toEqual(['One.', 'Two.'])
  const metrics = parent.stats.toJSON().usage_to_metrics['task:task_00000001']
  expect(metrics).toMatchObject({
    accumulated_cost: 0.2,
    accumulated_token_usage: { prompt_tokens: 200, completion_tokens: 20 },
  })
  expect(await scene.children(parent.id)).toHaveLength(1)
  const [record] = await scene.storage.conversations.get([parent.id])
  expect(JSON.parse(record?.stats ?? '{}').usage_to_metrics['task:task_00000001']).toEqual(metrics)
})

test('the model is told of the agents only when it has the tool, those that cannot work here left out', async () => {
  const given = {
    agent_definitions: [
      definition('helper', { when_to_use_examples: ['when help is needed'] }),
      definition('stranger', { tools: ['nonesuch'] }),
    ],
  }
  const promptOf = async (id: string) => {
    const prompt = (await scene.events(id)).find(({ kind }) => kind === 'SystemPromptEvent')
    return JSON.stringify(prompt)
  }
  const told = await promptOf((await scene.play([finish('Done.')], given)).id)
  expect(told).toContain('- helper: Does what helper does.\\n  - For example: when help is needed')
  expect(told).toContain('- code-explorer: ')
  expect(told).toContain('"kind":"TaskTool"')
  expect(told).not.toContain('stranger')
  expect(scene.lines.join()).toContain(
    'The agent stranger names tools that this server does not have: nonesuch',
  )
  for (const agent of [{ tools: [] }, { filter_tools_regex: '^x' }]) {
    const untold = await promptOf((await scene.play([finish('Done.')], { ...given, agent })).id)
    expect(untold).not.toContain('helper')
    expect(untold).not.toContain('TaskTool')
  }
})

test.each([
  [{ prompt: 'x', subagent_type: 'nobody' }, "There is no agent 'nobody'. Available: helper, lost, "],
  [{ prompt: 'x', subagent_type: 'lost' }, 'names an LLM profile that is not there: gone'],
  [{ prompt: 'x', subagent_type: 'stranger' }, 'names tools that this server does not have: nonesuch'],
  [{ prompt: ' ', subagent_type: 'helper' }, 'The prompt is empty'],
  [{ prompt: 'x', resume: 'task_00000009' }, "There is no task 'task_00000009'. There are none yet."],
])(
  'a task that cannot be begun is an error with its reason, and leaves nothing behind: %j',
  async (args, reason) => {
    const parent = await scene.play([tasks(args), finish('Done.')], {
      agent_definitions: [
        definition('helper'),
        definition('lost', { model: 'gone' }),
        definition('stranger', { tools: ['nonesuch'] }),
      ],
    })
    const [result] = await scene.results(parent.id)
    expect(result).toMatchObject({ is_error: true, status: 'error', task_id: '' })
    expect(textOf(result?.content)).toContain(reason)
    expect(await scene.children(parent.id)).toEqual([])
    expect(parent.state.status).toBe('finished')
  },
)

test.each([
  [
    definition('helper'),
    [{ error: { code: 'LLMBadRequestError', detail: 'It is too much.' } }],
    'The agent failed. LLMBadRequestError: It is too much.',
  ],
  [
    definition('helper', { max_iteration_per_run: 2 }),
    [bash('true'), bash('true'), bash('true')],
    'The agent failed. MaxIterationsReached: Agent reached maximum iterations limit (2).',
  ],
  [definition('helper'), Array.from({ length: 6 }, () => bash('echo same')), 'went in circles'],
])('an agent that fails or reaches a limit is an error with its reason', async (agent, script, reason) => {
  await scene.model('helper', script)
  const parent = await scene.play([give('Do it.'), finish('Done.')], { agent_definitions: [agent] })
  const [result] = await scene.results(parent.id)
  expect(result).toMatchObject({ is_error: true, status: 'error', task_id: 'task_00000001' })
  expect(textOf(result?.content)).toContain(reason)
  expect(parent.state.status).toBe('finished')
})

test('max_turns of the call bounds the steps of a task, though models are not told of it', async () => {
  await scene.model('helper', [bash('true'), bash('true'), finish('Late.')])
  const parent = await scene.play([give('Do it.', { max_turns: 1 }), finish('Done.')], helper)
  const [result] = await scene.results(parent.id)
  expect(textOf(result?.content)).toContain('MaxIterationsReached')
})

test('a task stops after the step that used up its budget, unless its last word was spoken by then', async () => {
  const priced = { input_cost_per_token: 1, output_cost_per_token: 0 }
  const usage = { prompt_tokens: 2, completion_tokens: 1 }
  const more = { agent_definitions: [definition('helper', { max_budget_per_run: 3 })] }
  const steps = ['1', '2', '3', '4'].map((step) => ({ ...bash(`echo ${step}`), usage }))
  await scene.model('helper', [...steps, { text: 'Late.', usage }], priced)
  const parent = await scene.play([give('Do it.'), finish('Done.')], more)
  const [result] = await scene.results(parent.id)
  expect(result).toMatchObject({ is_error: true })
  expect(textOf(result?.content)).toContain('it has used its budget of 3 dollars')
  const child = await scene.child(parent.id)
  expect((await scene.events(child.id)).filter(({ kind }) => kind === 'ActionEvent')).toHaveLength(2)
  for (const last of [{ text: 'In time.' }, finish('In time.')]) {
    await scene.model(
      'helper',
      [
        { ...bash('true'), usage },
        { ...last, usage },
      ],
      priced,
    )
    const { id } = await scene.play([give('Do it.'), finish('Done.')], more)
    expect(await scene.results(id)).toMatchObject([{ is_error: false, status: 'completed' }])
  }
})

test('tasks of one answer are done beside each other as far as the agent may, each under its own number', async () => {
  const meet = (mine: string, other: string) =>
    bash(
      `touch ${mine}; for i in $(seq 400); do [ -e ${other} ] && break; sleep 0.05; done; [ -e ${other} ] && echo met`,
    )
  await scene.model('left', [meet('l', 'r'), finish('Left.')])
  await scene.model('right', [meet('r', 'l'), finish('Right.')])
  const parent = await scene.play(
    [tasks({ prompt: 'x', subagent_type: 'left' }, { prompt: 'x', subagent_type: 'right' }), finish('Done.')],
    {
      agent: { tool_concurrency_limit: 2 },
      agent_definitions: [definition('left'), definition('right')],
    },
  )
  const results = await scene.results(parent.id)
  expect(results.map(({ content }) => textOf(content).split('\n')[0])).toEqual(['Left.', 'Right.'])
  expect(results.map(({ task_id }) => task_id).sort()).toEqual(['task_00000001', 'task_00000002'])
  for (const child of await scene.children(parent.id))
    expect(JSON.stringify(await scene.events(child))).toContain('met')
})

test('where only one run is allowed at a time, a task does not wait for the run that waits for it', async () => {
  await using other = await TaskScene.open(join(place.path, 'narrow'), { maxRuns: 1 })
  await other.model('helper', [finish('It is done.')])
  const parent = await other.play([give('Do it.'), finish('Done.')], helper)
  expect(await other.results(parent.id)).toMatchObject([{ status: 'completed' }])
})

test('an agent gives tasks of its own only when it was given the tool, and not for ever deeper', async () => {
  await scene.model('plain', [tasks({ prompt: 'x', subagent_type: 'plain' }), finish('Alone.')])
  const flat = await scene.play([tasks({ prompt: 'x', subagent_type: 'plain' }), finish('Done.')], {
    agent_definitions: [definition('plain')],
  })
  const child = await scene.child(flat.id)
  expect(await scene.children(child.id)).toEqual([])
  expect(JSON.stringify(await scene.events(child.id))).toContain("Tool 'task' not found")
  await scene.model('deep', [tasks({ prompt: 'x', subagent_type: 'deep' }), finish('Deeper.')])
  const deep = await scene.play([tasks({ prompt: 'x', subagent_type: 'deep' }), finish('Done.')], {
    agent_definitions: [definition('deep', { tools: ['task_tool_set'] })],
  })
  let depth = 0
  for (let id: string | undefined = deep.id; id !== undefined; depth++) [id] = await scene.children(id)
  expect(depth).toBe(5)
  expect(await scene.results(deep.id)).toMatchObject([{ status: 'completed' }])
})

test('a restart goes on counting, and a task from before can be gone on with', async () => {
  await scene.model('helper', [finish('One.'), finish('Two.')])
  const { id } = await scene.play([give('Begin.'), finish('Done.'), give('Other.'), finish('Done.')], helper)
  await scene.restart()
  const again = await scene.agents.get(id)
  await again.send({ ...message('More.'), run: true })
  await again.settled()
  expect((await scene.results(id)).map(({ task_id }) => task_id)).toEqual(['task_00000001', 'task_00000002'])
})

test('a number is not given twice, when the task was deleted or its result was copied here', async () => {
  await scene.model('helper', [finish('One.')])
  const script = [give('A.'), finish('Done.'), give('B.'), finish('Done.')]
  const { id } = await scene.play(script, helper)
  const source = await scene.agents.get(id)
  const [first = ''] = await scene.children(id)
  const [record] = await scene.storage.conversations.get([id])
  if (record === undefined) throw new Error('it is there')
  const copy = await forkConversation({ storage: scene.storage, agents: scene.agents }, record, {
    reset_metrics: true,
  })
  await remove(first)
  await scene.restart()
  for (const one of [source.id, copy.id]) {
    const conversation = await scene.agents.get(one)
    await conversation.send({ ...message('More.'), run: true })
    await conversation.settled()
    const ids = (await scene.results(one)).map(({ task_id }) => task_id)
    expect(ids).toEqual(['task_00000001', 'task_00000002'])
  }
})

test('with a conversation go its tasks and theirs; who only names it as parent stays', async () => {
  await scene.model('deep', [tasks({ prompt: 'x', subagent_type: 'helper' }), finish('Deeper.')])
  await scene.model('helper', [finish('Done.')])
  const parent = await scene.play([tasks({ prompt: 'x', subagent_type: 'deep' }), finish('Done.')], {
    agent_definitions: [definition('deep', { tools: ['task_tool_set'] }), definition('helper')],
  })
  const [task = ''] = await scene.children(parent.id)
  const [below = ''] = await scene.children(task)
  const friend = await scene.play([finish('Done.')], { parent_conversation_id: parent.id })
  expect(await remove(parent.id)).toBe(true)
  const records = await scene.storage.conversations.get([parent.id, task, below, friend.id])
  expect(records.map((record) => record?.id)).toEqual([undefined, undefined, undefined, friend.id])
  expect(await remove(parent.id)).toBe(false)
})

test('a conversation that is deleted in mid-task leaves no task behind', async () => {
  await scene.model('helper', [bash('touch begun; sleep 600'), finish('Late.')])
  const parent = await scene.begin([give('Do it.'), finish('Done.')], helper)
  const child = await scene.child(parent.id)
  await until(() => child.state.pending.size > 0)
  expect(await remove(parent.id)).toBe(true)
  expect(await scene.storage.conversations.get([parent.id, child.id])).toEqual([undefined, undefined])
  await until(async () => (await scene.agents.peek(child.id)) === undefined)
})

test('a task whose conversation somebody deletes is an error, and the run goes on', async () => {
  await scene.model('helper', [bash('sleep 600'), finish('Late.')])
  const parent = await scene.begin([give('Do it.'), finish('Done.')], helper)
  const child = await scene.child(parent.id)
  await until(() => child.state.pending.size > 0)
  await remove(child.id)
  await parent.settled()
  expect(parent.state.status).toBe('finished')
  expect(await scene.results(parent.id)).toMatchObject([{ is_error: true, task_id: 'task_00000001' }])
})

async function remove(id: string): Promise<boolean> {
  const { storage, agents, directory } = scene
  return await removeConversation(
    { storage, agents, conversations: new Conversations(storage, directory) },
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
