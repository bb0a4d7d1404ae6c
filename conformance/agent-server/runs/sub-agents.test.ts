import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  bash,
  brief,
  call,
  calls,
  Driver,
  faultsOf,
  finish,
  type Info,
  scripted,
  texts,
} from '../../support/agent-driver.ts'
import { startServer } from '../../support/agent-server.ts'
import { Api, type Event } from '../../support/agent-server-api.ts'
import { leaks, plant } from '../../support/canaries.ts'

const key = 'key-of-this-test'
let data: string
let directory: string
let server: Awaited<ReturnType<typeof startServer>>
let api: Api
let drive: Driver
/** What the servers so far have printed. */
let printed = ''

beforeAll(async () => {
  data = await realpath(await mkdtemp(join(tmpdir(), 'slipway-agents-')))
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-agents-work-')))
  await start()
})
afterAll(async () => {
  await server.stop()
  for (const path of [data, directory]) await rm(path, { recursive: true, force: true })
})

async function start(): Promise<void> {
  server = await startServer(data, { SLIPWAY_SESSION_API_KEY: key, SLIPWAY_LOG_LEVEL: 'debug' })
  const there = {
    url: server.url,
    headers: { 'x-session-api-key': key },
    [Symbol.asyncDispose]: async () => {},
  }
  api = new Api(there)
  drive = new Driver({ api, server: there, directory })
}

async function restart(signal: NodeJS.Signals): Promise<void> {
  await server.stop(signal)
  printed += server.output()
  await start()
}

/** A profile whose model plays a script, by the name of the agent that has it. */
async function model(name: string, script: readonly unknown[], more: object = {}): Promise<void> {
  const body = { llm: scripted(script, more), include_secrets: true }
  const { status } = await api.send('POST', `/api/profiles/${name}`, body)
  expect(status).toBe(201)
}

const agent = (name: string, more: object = {}) => ({ name, model: name, tools: ['terminal'], ...more })
const give = (subagent_type: string, more: object = {}) =>
  calls(call('task', { prompt: 'Do it.', subagent_type, ...more }))

/** A conversation that has the task tool and plays a script from its first message on. */
async function begin(script: readonly unknown[], more: object = {}): Promise<Info> {
  return await drive.create(
    { llm: scripted(script), tools: [{ name: 'task_tool_set' }] },
    { initial_message: { content: 'Begin.' }, ...more },
  )
}

async function childrenOf(id: string): Promise<string[]> {
  return (await drive.info(id)).sub_conversation_ids as string[]
}

async function childOf(id: string): Promise<string> {
  for (;;) {
    const [child] = await childrenOf(id)
    if (child !== undefined) return child
    await sleep(20)
  }
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let waited = 0; !(await isSo()); waited += 30) {
    if (waited > 20_000) throw new Error('it did not come to be')
    await sleep(30)
  }
}

const results = (events: readonly Event[]) =>
  events.flatMap(({ observation }) =>
    Reflect.get(Object(observation), 'kind') === 'TaskObservation' ? [Object(observation)] : [],
  )

test('agents are listed: those of a project, and those that come with the server', async () => {
  const list = async (body: object) =>
    (await api.send('POST', '/api/sub-agents', body)) as { status: number; body: { agents: Event[] } }
  const project = join(directory, 'project')
  await mkdir(join(project, '.agents/agents'), { recursive: true })
  await writeFile(join(project, '.agents/agents/mine.md'), '---\ndescription: Mine.\n---\nYou are mine.')
  const all = await list({ project_dir: project, load_user: false })
  expect(all.status).toBe(200)
  expect(all.body.agents.map(({ name }) => name)).toEqual([
    'mine',
    'general-purpose',
    'code-explorer',
    'bash-runner',
    'web-researcher',
  ])
  expect(all.body.agents[0]).toMatchObject({ level: 'project', is_builtin: false, description: 'Mine.' })
  const count = async (body: object) => (await list({ load_user: false, ...body })).body.agents.length
  expect(await count({ load_builtin: false, project_dir: project })).toBe(1)
  expect(await count({ load_builtin: false, load_project: false, project_dir: project })).toBe(0)
  for (const project_dir of ['workspace/project', '/nowhere/at/all', '', null])
    expect(await count({ project_dir })).toBe(4)
  expect((await api.json('/api/sub-agents', { method: 'POST' })).status).toBe(200)
  const bad = await list({ project_dir: 'a\0b' })
  expect(bad).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'project_dir'] }] } })
})

test('a task is a conversation of its own, found from its parent; its events are served to all who read', async () => {
  expect((await api.json<string[]>('/api/tools/')).body).toContain('task_tool_set')
  await model('helper', [bash('echo made > by-helper'), finish('It is made.')])
  const parent = await drive.create(
    {
      llm: scripted([give('helper', { description: 'Make it' }), finish('Done.')]),
      tools: [{ name: 'TaskToolSet' }],
    },
    { agent_definitions: [agent('helper')] },
  )
  await using client = drive.open(`/sockets/events/${parent.id}?session_api_key=${key}`)
  await drive.say(parent.id, 'Begin.')
  const events = await drive.rest(parent.id)
  expect(events.map(brief)).toEqual([
    'SystemPromptEvent',
    'message:user',
    'execution_status=running',
    'ActionEvent:task',
    'result:task',
    'ActionEvent:finish',
    'result:finish',
    'execution_status=finished',
  ])
  expect(faultsOf(events)).toEqual([])
  expect(results(events)).toMatchObject([
    { task_id: 'task_00000001', subagent: 'helper', status: 'completed', is_error: false },
  ])
  expect(existsSync(join(directory, 'by-helper'))).toBe(true)
  await client.until((frames) => frames.some((frame) => results([frame]).length > 0))
  const child = await childOf(parent.id)
  expect(await drive.info(child)).toMatchObject({
    parent_conversation_id: parent.id,
    execution_status: 'finished',
    title: 'Make it',
    workspace: { working_dir: directory },
  })
  expect(faultsOf(await drive.rest(child))).toEqual([])
  expect((await drive.info(parent.id)).stats).toMatchObject({
    usage_to_metrics: { 'task:task_00000001': { model_name: 'scripted/test' } },
  })
  const found = await api.json<{ items: Event[] }>(
    `/api/conversations/${parent.id}/events/search?kind=ObservationEvent`,
  )
  expect(results(found.body.items)).toHaveLength(1)
})

test('a log with tasks is exported, taken back by who asks for what is newer, and by nobody else', async () => {
  await model('helper', [finish('It is done.')])
  const { id } = await begin([give('helper'), finish('Done.')], { agent_definitions: [agent('helper')] })
  await drive.rest(id)
  const bytes = await api.export(id)
  const take = async (query: string) => {
    const headers = { 'content-type': 'application/x-ndjson' }
    return await api.fetch(`/api/conversations/import${query}`, {
      method: 'POST',
      headers,
      body: bytes.toString(),
    })
  }
  expect((await take('')).status).toBe(422)
  const kept = await take('?unknown=keep')
  expect(kept.status).toBe(201)
  const { conversation_id } = (await kept.json()) as { conversation_id: string }
  expect((await api.export(conversation_id)).equals(bytes)).toBe(true)
  const fork = await drive.post(id, 'fork', {})
  expect(fork.status).toBe(201)
  expect(fork.body).toMatchObject({ sub_conversation_ids: [] })
})

test('agents come with plugins too, and many tasks of one answer keep their order', async () => {
  const plugin = join(directory, 'plugin')
  await mkdir(join(plugin, '.plugin'), { recursive: true })
  await mkdir(join(plugin, 'agents'))
  await writeFile(join(plugin, '.plugin/plugin.json'), JSON.stringify({ name: 'tools', version: '1.0.0' }))
  await writeFile(join(plugin, 'agents/plugged.md'), '---\nmodel: plugged\n---\nYou are plugged in.')
  await model('plugged', [finish('It is done.')])
  const count = 20
  const many = calls(
    ...Array.from({ length: count }, () => call('task', { prompt: 'x', subagent_type: 'plugged' })),
  )
  const { id } = await drive.create(
    { llm: scripted([many, finish('Done.')]), tools: [{ name: 'task_tool_set' }], tool_concurrency_limit: 8 },
    { initial_message: { content: 'Begin.' }, plugins: [{ source: plugin }] },
  )
  const events = await drive.rest(id)
  expect(faultsOf(events)).toEqual([])
  const found = results(events)
  expect(found.map(({ status, subagent }) => [status, subagent])).toEqual(
    Array.from({ length: count }, () => ['completed', 'plugged']),
  )
  expect(new Set(found.map(({ task_id }) => task_id)).size).toBe(count)
  const callIds = (kind: string) =>
    events
      .filter((event) => event.kind === kind && event.tool_name === 'task')
      .map((event) => event.tool_call_id)
  expect(callIds('ObservationEvent')).toEqual(callIds('ActionEvent'))
  expect(JSON.stringify(events[0])).toContain('- plugged')
})

test('a child writes its events in the form that its parent was created with', async () => {
  await model('helper', [finish('It is done.')])
  for (const wire of ['seed', 'current']) {
    const response = await api.fetch('/api/conversations', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-slipway-wire': wire },
      body: JSON.stringify({
        agent: { llm: scripted([give('helper'), finish('Done.')]), tools: [{ name: 'task_tool_set' }] },
        workspace: { working_dir: directory },
        agent_definitions: [agent('helper')],
        initial_message: { content: 'Begin.' },
        autotitle: false,
      }),
    })
    expect(response.status).toBe(201)
    const { id } = (await response.json()) as Info
    expect(results(await drive.rest(id))).toMatchObject([{ status: 'completed' }])
    const [, ...later] = await drive.events(await childOf(id))
    expect(later.length).toBeGreaterThan(3)
    for (const event of later) expect('parent_id' in event).toBe(wire === 'current')
  }
})

test('a conversation that did not ask for the tool has nothing of it', async () => {
  const { id } = await drive.play([give('general-purpose'), finish('Done.')], {
    agent_definitions: [agent('helper')],
  })
  const events = await drive.rest(id)
  expect(events.map(brief)).toContain('AgentErrorEvent:task')
  expect(JSON.stringify(events[0])).not.toContain('helper')
  expect(await childrenOf(id)).toEqual([])
})

test('definitions of a request are checked, each fault with its place', async () => {
  const { status, body } = await drive.ask(
    { llm: scripted([]) },
    { agent_definitions: [agent('good'), { ...agent('bad'), max_budget_per_run: -1 }, { tools: [] }] },
  )
  expect(status).toBe(422)
  const places = (body.detail as { loc: unknown[] }[]).map(({ loc }) => loc.join('.'))
  expect(places).toEqual(['body.agent_definitions.1.max_budget_per_run', 'body.agent_definitions.2.name'])
})

test('what a child is about to do is confirmed in the child', async () => {
  await model('asker', [bash('touch by-asker'), finish('It is done.')])
  const { id } = await begin([give('asker'), finish('Done.')], {
    agent_definitions: [agent('asker', { permission_mode: 'always_confirm' })],
  })
  const child = await childOf(id)
  const isWaiting = async () => (await drive.info(child)).execution_status === 'waiting_for_confirmation'
  await until(isWaiting)
  expect((await drive.info(id)).execution_status).toBe('running')
  expect(existsSync(join(directory, 'by-asker'))).toBe(false)
  await drive.post(child, 'events/respond_to_confirmation', { accept: true })
  expect(results(await drive.rest(id))).toMatchObject([{ status: 'completed' }])
  expect(existsSync(join(directory, 'by-asker'))).toBe(true)
})

test('a server that is killed in mid-task answers the call, pauses both, and nothing is done twice', async () => {
  const name = `killed-${randomUUID()}`
  await model('worker', [bash(`echo x >> ${name}; sleep 300`), bash('true'), finish('It is done.')])
  const script = [give('worker'), give('worker', { resume: 'task_00000001' }), finish('Done.')]
  const { id } = await begin(script, { agent_definitions: [agent('worker')] })
  const child = await childOf(id)
  await until(() => existsSync(join(directory, name)))
  await restart('SIGKILL')
  for (const one of [id, child]) {
    const events = await drive.events(one)
    expect((await drive.info(one)).execution_status).toBe('paused')
    expect(faultsOf(events)).toEqual([])
    expect(events.filter(({ kind }) => kind === 'AgentErrorEvent')).toHaveLength(1)
  }
  expect((await drive.post(id, 'run')).status).toBe(200)
  const events = await drive.rest(id)
  expect(faultsOf(events)).toEqual([])
  expect(results(events)).toMatchObject([{ task_id: 'task_00000001', status: 'completed' }])
  expect(await childrenOf(id)).toEqual([child])
  expect(await readFile(join(directory, name), 'utf8')).toBe('x\n')
})

test('killed at any moment, a server finds parents and children whole, and their work goes on', async () => {
  for (const name of ['left', 'right'])
    await model(name, [...['1', '2', '3'].map((at) => bash(`echo ${at}; sleep 0.1`)), finish('It is done.')])
  const both = calls(
    call('task', { prompt: 'x', subagent_type: 'left' }),
    call('task', { prompt: 'x', subagent_type: 'right' }),
  )
  for (const afterMs of [30, 180, 330, 480]) {
    const { id } = await drive.create(
      {
        llm: scripted([both, both, finish('Done.')]),
        tools: [{ name: 'task_tool_set' }],
        tool_concurrency_limit: 2,
      },
      { initial_message: { content: 'Begin.' }, agent_definitions: [agent('left'), agent('right')] },
    )
    await sleep(afterMs)
    await restart('SIGKILL')
    for (const one of [id, ...(await childrenOf(id))]) {
      expect((await drive.info(one)).execution_status).not.toBe('running')
      expect(faultsOf(await drive.events(one))).toEqual([])
    }
    await drive.post(id, 'run')
    const events = await drive.rest(id)
    expect(faultsOf(events)).toEqual([])
    expect((await drive.info(id)).execution_status).toBe('finished')
    const ids = results(events).map(({ task_id }) => task_id)
    expect(new Set(ids).size).toBe(ids.length)
  }
})

test('with a conversation its tasks are deleted, and nothing of them stays', async () => {
  await model('helper', [finish('It is done.')])
  const { id } = await begin([give('helper'), finish('Done.')], { agent_definitions: [agent('helper')] })
  await drive.rest(id)
  const child = await childOf(id)
  expect((await api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(200)
  for (const one of [id, child]) expect((await api.fetch(`/api/conversations/${one}`)).status).toBe(404)
  const folders = await readdir(join(data, 'conversations'))
  expect(folders).not.toContain(child.replaceAll('-', ''))
})

test('secrets of definitions and of children are in no file, no log line and no answer', async () => {
  const secret = plant('secret')
  // What is not registered as a secret of this conversation could still be one of its definitions.
  await writeFile(join(directory, 'notes.txt'), plant('mcp-env'))
  const script = [bash('echo "it is $TOKEN, $(cat notes.txt)"'), finish('It is said.')]
  await model('keeper', script, { api_key: plant('profile-key') })
  let answers = ''
  const { id } = await begin([give('keeper', { prompt: `Use ${secret}.` }), finish('Done.')], {
    agent_definitions: [
      agent('keeper', {
        condenser: {
          kind: 'LLMSummarizingCondenser',
          llm: { model: 'scripted/x', api_key: plant('condenser-key') },
        },
      }),
      agent('other', {
        mcp_config: {
          notes: { command: 'notes', args: ['--api-key', plant('mcp-arg')], env: { A: plant('mcp-env') } },
          web: { url: 'https://host.invalid/', headers: { Authorization: `Bearer ${plant('mcp-header')}` } },
        },
      }),
    ],
    secrets: { TOKEN: secret },
  })
  await drive.rest(id)
  const child = await childOf(id)
  for (const one of [id, child]) {
    answers += JSON.stringify(await drive.info(one))
    answers += texts(await drive.events(one))
    answers += JSON.stringify(await drive.events(one))
  }
  expect(answers).toContain('it is ')
  const { status, body } = await drive.ask(
    { llm: scripted([]) },
    { agent_definitions: [agent('x', { mcp_config: { a: { env: { A: plant('refused') } } } })] },
  )
  expect(status).toBe(422)
  answers += JSON.stringify(body)
  expect(leaks(answers)).toEqual([])
  await restart('SIGTERM')
  expect(leaks(printed + server.output())).toEqual([])
  const files = (await readdir(data, { recursive: true, withFileTypes: true })).filter((file) =>
    file.isFile(),
  )
  expect(files.length).toBeGreaterThan(3)
  for (const file of files) {
    const path = join(file.parentPath, file.name)
    expect([path, ...leaks(await readFile(path))]).toEqual([path])
  }
})
