import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import {
  bashStep,
  type ConversationInfo,
  collectTexts,
  eventLabel,
  findLogIssues,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import type { ApiEvent } from '../../support/agent-server-api.ts'
import { findLeaks, plantSecret } from '../../support/canaries.ts'
import { agentDefinition, SubAgentDriver, taskResults, taskStep, waitFor } from '../../support/sub-agents.ts'

const key = 'key-of-this-test'
const server = await OwnAgentServer.open({ env: { SLIPWAY_LOG_LEVEL: 'debug' }, sessionKey: key })
afterAll(async () => await server[Symbol.asyncDispose]())
const { data, directory } = server
const tasks = new SubAgentDriver(server)
let { api, driver } = server

async function restart(signal: NodeJS.Signals): Promise<void> {
  await server.restart(signal)
  ;({ api, driver } = server)
}

test('agents are listed: those of a project, and the built-in ones', async () => {
  const list = async (body: object) =>
    (await api.sendJson('POST', '/api/sub-agents', body)) as { status: number; body: { agents: ApiEvent[] } }
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
  expect((await api.requestJson('/api/sub-agents', { method: 'POST' })).status).toBe(422)
  const bad = await list({ project_dir: 'a\0b' })
  expect(bad).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'project_dir'] }] } })
})

test('a task is its own conversation, linked from its parent; its events are served on every transport', async () => {
  expect((await api.requestJson<string[]>('/api/tools/')).body).toContain('task_tool_set')
  await tasks.createProfile('helper', [bashStep('echo made > by-helper'), finishStep('It is made.')])
  const parent = await driver.create(
    {
      llm: scriptedModel([taskStep('helper', { description: 'Make it' }), finishStep('Done.')]),
      tools: [{ name: 'TaskToolSet' }],
    },
    { agent_definitions: [agentDefinition('helper')] },
  )
  await using client = driver.openSocket(`/sockets/events/${parent.id}?session_api_key=${key}`)
  await driver.sendMessage(parent.id, 'Begin.')
  const events = await driver.waitUntilIdle(parent.id)
  expect(events.map(eventLabel)).toEqual([
    'SystemPromptEvent',
    'message:user',
    'execution_status=running',
    'ActionEvent:task',
    'result:task',
    'ActionEvent:finish',
    'result:finish',
    'execution_status=finished',
  ])
  expect(findLogIssues(events)).toEqual([])
  expect(taskResults(events)).toMatchObject([
    { task_id: 'task_00000001', subagent: 'helper', status: 'completed', is_error: false },
  ])
  expect(existsSync(join(directory, 'by-helper'))).toBe(true)
  await client.waitUntil((frames) => frames.some((frame) => taskResults([frame]).length > 0))
  const child = await tasks.waitForChild(parent.id)
  expect(await driver.getInfo(child)).toMatchObject({
    parent_conversation_id: parent.id,
    execution_status: 'finished',
    title: 'Make it',
    workspace: { working_dir: directory },
  })
  expect(findLogIssues(await driver.waitUntilIdle(child))).toEqual([])
  expect((await driver.getInfo(parent.id)).stats).toMatchObject({
    usage_to_metrics: { 'task:task_00000001': { model_name: 'scripted/test' } },
  })
  const found = await api.requestJson<{ items: ApiEvent[] }>(
    `/api/conversations/${parent.id}/events/search?kind=ObservationEvent`,
  )
  expect(taskResults(found.body.items)).toHaveLength(1)
})

test('a log with tasks is exported, and imported only with unknown=keep', async () => {
  await tasks.createProfile('helper', [finishStep('It is done.')])
  const { id } = await tasks.createParent([taskStep('helper'), finishStep('Done.')], {
    agent_definitions: [agentDefinition('helper')],
  })
  await driver.waitUntilIdle(id)
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
  const accepted = await take('?unknown=keep')
  expect(accepted.status).toBe(201)
  const { conversation_id } = (await accepted.json()) as { conversation_id: string }
  expect((await api.export(conversation_id)).equals(bytes)).toBe(true)
  const fork = await driver.post(id, 'fork', {})
  expect(fork.status).toBe(201)
  expect(fork.body).toMatchObject({ sub_conversation_ids: [] })
})

test('plugins contain agents too, and several tasks of one reply stay in order', async () => {
  const plugin = join(directory, 'plugin')
  await mkdir(join(plugin, '.plugin'), { recursive: true })
  await mkdir(join(plugin, 'agents'))
  await writeFile(join(plugin, '.plugin/plugin.json'), JSON.stringify({ name: 'tools', version: '1.0.0' }))
  await writeFile(join(plugin, 'agents/plugged.md'), '---\nmodel: plugged\n---\nYou are plugged in.')
  await tasks.createProfile('plugged', [finishStep('It is done.')])
  const count = 20
  const many = toolCallsStep(
    ...Array.from({ length: count }, () => toolCall('task', { prompt: 'x', subagent_type: 'plugged' })),
  )
  const { id } = await driver.create(
    {
      llm: scriptedModel([many, finishStep('Done.')]),
      tools: [{ name: 'task_tool_set' }],
      tool_concurrency_limit: 8,
    },
    { initial_message: { content: [{ type: 'text', text: 'Begin.' }] }, plugins: [{ source: plugin }] },
  )
  const events = await driver.waitUntilIdle(id)
  expect(findLogIssues(events)).toEqual([])
  const found = taskResults(events)
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

test('a child has the wire of its parent', async () => {
  await tasks.createProfile('helper', [finishStep('It is done.')])
  for (const wire of ['seed', 'current']) {
    const response = await api.fetch('/api/conversations', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-slipway-wire': wire },
      body: JSON.stringify({
        agent: {
          llm: scriptedModel([taskStep('helper'), finishStep('Done.')]),
          tools: [{ name: 'task_tool_set' }],
        },
        workspace: { working_dir: directory },
        agent_definitions: [agentDefinition('helper')],
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
        autotitle: false,
      }),
    })
    expect(response.status).toBe(201)
    const { id } = (await response.json()) as ConversationInfo
    expect(taskResults(await driver.waitUntilIdle(id))).toMatchObject([{ status: 'completed' }])
    const [, ...later] = await driver.getEvents(await tasks.waitForChild(id))
    expect(later.length).toBeGreaterThan(3)
    for (const event of later) expect('parent_id' in event).toBe(wire === 'current')
  }
})

test('a conversation without the tool has no trace of it', async () => {
  const { id } = await driver.createScripted([taskStep('general-purpose'), finishStep('Done.')], {
    agent_definitions: [agentDefinition('helper')],
  })
  const events = await driver.waitUntilIdle(id)
  expect(events.map(eventLabel)).toContain('AgentErrorEvent:task')
  // The prompt also names the files of the workspace, among them one that a helper has made.
  expect(JSON.stringify(events[0]).replaceAll('by-helper', '')).not.toContain('helper')
  expect(await tasks.listChildren(id)).toEqual([])
})

test('agent definitions of a request are validated, each issue with its location', async () => {
  const { status, body } = await driver.tryCreate(
    { llm: scriptedModel([]) },
    {
      agent_definitions: [
        agentDefinition('good'),
        { ...agentDefinition('bad'), max_budget_per_run: -1 },
        { tools: [] },
      ],
    },
  )
  expect(status).toBe(422)
  const places = (body.detail as { loc: unknown[] }[]).map(({ loc }) => loc.join('.'))
  expect(places).toEqual(['body.agent_definitions.1.max_budget_per_run', 'body.agent_definitions.2.name'])
})

test('actions of a child are confirmed in the child', async () => {
  await tasks.createProfile('asker', [bashStep('touch by-asker'), finishStep('It is done.')])
  const { id } = await tasks.createParent([taskStep('asker'), finishStep('Done.')], {
    agent_definitions: [agentDefinition('asker', { permission_mode: 'always_confirm' })],
  })
  const child = await tasks.waitForChild(id)
  const isWaiting = async () => (await driver.getInfo(child)).execution_status === 'waiting_for_confirmation'
  await waitFor(isWaiting)
  expect((await driver.getInfo(id)).execution_status).toBe('running')
  expect(existsSync(join(directory, 'by-asker'))).toBe(false)
  await driver.post(child, 'events/respond_to_confirmation', { accept: true })
  expect(taskResults(await driver.waitUntilIdle(id))).toMatchObject([{ status: 'completed' }])
  expect(existsSync(join(directory, 'by-asker'))).toBe(true)
})

test('deleting a conversation deletes its tasks completely', async () => {
  await tasks.createProfile('helper', [finishStep('It is done.')])
  const { id } = await tasks.createParent([taskStep('helper'), finishStep('Done.')], {
    agent_definitions: [agentDefinition('helper')],
  })
  await driver.waitUntilIdle(id)
  const child = await tasks.waitForChild(id)
  expect((await api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(200)
  for (const one of [id, child]) expect((await api.fetch(`/api/conversations/${one}`)).status).toBe(404)
  const folders = await readdir(join(data, 'conversations'))
  expect(folders).not.toContain(child.replaceAll('-', ''))
})

test('secrets of definitions and of children are in no file, no log line and no answer', async () => {
  const secret = plantSecret('secret')
  // A text that is no secret of this conversation could still be in one of its definitions.
  await writeFile(join(directory, 'notes.txt'), plantSecret('mcp-env'))
  const script = [bashStep('echo "it is $TOKEN, $(cat notes.txt)"'), finishStep('It is said.')]
  await tasks.createProfile('keeper', script, { api_key: plantSecret('profile-key') })
  let answers = ''
  const { id } = await tasks.createParent(
    [taskStep('keeper', { prompt: `Use ${secret}.` }), finishStep('Done.')],
    {
      agent_definitions: [
        agentDefinition('keeper', {
          condenser: {
            kind: 'LLMSummarizingCondenser',
            llm: { model: 'scripted/x', api_key: plantSecret('condenser-key') },
          },
        }),
        agentDefinition('other', {
          mcp_config: {
            notes: {
              command: 'notes',
              args: ['--api-key', plantSecret('mcp-arg')],
              env: { A: plantSecret('mcp-env') },
            },
            web: {
              url: 'https://host.invalid/',
              headers: { Authorization: `Bearer ${plantSecret('mcp-header')}` },
            },
          },
        }),
      ],
      secrets: { TOKEN: secret },
    },
  )
  await driver.waitUntilIdle(id)
  const child = await tasks.waitForChild(id)
  for (const one of [id, child]) {
    answers += JSON.stringify(await driver.getInfo(one))
    answers += collectTexts(await driver.getEvents(one))
    answers += JSON.stringify(await driver.getEvents(one))
  }
  expect(answers).toContain('it is ')
  const { status, body } = await driver.tryCreate(
    { llm: scriptedModel([]) },
    {
      agent_definitions: [
        agentDefinition('x', { mcp_config: { a: { env: { A: plantSecret('refused') } } } }),
      ],
    },
  )
  expect(status).toBe(422)
  answers += JSON.stringify(body)
  expect(findLeaks(answers)).toEqual([])
  await restart('SIGTERM')
  expect(findLeaks(server.output())).toEqual([])
  const files = (await readdir(data, { recursive: true, withFileTypes: true })).filter((file) =>
    file.isFile(),
  )
  expect(files.length).toBeGreaterThan(2)
  for (const file of files) {
    const path = join(file.parentPath, file.name)
    expect([path, ...findLeaks(await readFile(path))]).toEqual([path])
  }
})
