import { mkdir, writeFile } from 'node:fs/promises'
import { expect } from 'vitest'
import { expectAnswer, expectUnauthorized } from '../answers.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import {
  commandReply,
  finishReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  toolReply,
} from '../map-server.ts'

const map = openMapServer()
const own = { hasOwnServer: true }
const hooksOf = async (project_dir?: string) =>
  (
    await map.requestOrThrow<{ hook_config: Json | null }>('POST', '/api/hooks', {
      body: project_dir === undefined ? {} : { project_dir },
    })
  ).hook_config
/** A project with this hooks.json; returns its directory. */
async function project(name: string, hooks: unknown, at = '.openhands'): Promise<string> {
  const text = typeof hooks === 'string' ? hooks : JSON.stringify(hooks)
  await map.upload(`${map.directory}/${name}/${at}/hooks.json`, text)
  return `${map.directory}/${name}`
}
const command = (text: string, more: object = {}) => [
  { matcher: '*', hooks: [{ type: 'command', command: text, ...more }] },
]
interface Agent extends Json {
  readonly name: string
}
const agents = async (body: object, on: MapClient = map) =>
  (await on.requestOrThrow<{ agents: Agent[] }>('POST', '/api/sub-agents', { body })).agents
const names = async (body: object, on: MapClient = map) => (await agents(body, on)).map(({ name }) => name)
const onlyProject = { load_user: false, load_builtin: false }
const agentText = (name: string, more = '', body = `I am ${name}.`) =>
  `---\nname: ${name}\ndescription: Agent ${name}.\n${more}---\n\n${body}\n`
const builtins = ['bash-runner', 'code-explorer', 'general-purpose', 'web-researcher']
interface Tool extends Json {
  readonly name: string
  readonly description: string
}
const catalog = async () => (await map.requestOrThrow<{ tools: Tool[] }>('GET', '/api/tools/catalog')).tools

mapCase('F27.auth', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['GET', '/api/tools/'],
    ['GET', '/api/tools/catalog'],
    ['POST', '/api/hooks', {}],
    ['POST', '/api/sub-agents', {}],
  )
})
mapCase('F27.validation', 'a missing body or a wrong type is 422', async () => {
  for (const path of ['/api/hooks', '/api/sub-agents']) {
    await expectAnswer(map, 422, 'POST', path)
    await expectAnswer(map, 422, 'POST', path, { body: { project_dir: 5 } })
  }
})
mapCase('F27.tools-list', 'the names of all tools', async () => {
  expect(await map.requestOrThrow('GET', '/api/tools/')).toEqual(
    expect.arrayContaining(['terminal', 'file_editor', 'task_tracker', 'browser_tool_set', 'task']),
  )
})
const otherSlash = [
  ['/api/tools', '/api/tools/'],
  ['/api/tools/catalog/', '/api/tools/catalog'],
] as const
differs(
  'F27.tools-redirect',
  'the other spelling of an address is 307',
  'an address with a slash at its end, or without one',
  async () => {
    for (const [from, to] of otherSlash)
      expect(await map.requestOrThrow('GET', from)).toEqual(await map.requestOrThrow('GET', to))
  },
  async () => {
    for (const [from, to] of otherSlash) {
      const { status, headers } = await map.request('GET', from)
      expect([from, status, new URL(String(headers.get('location')), map.url).pathname]).toEqual([
        from,
        307,
        to,
      ])
    }
  },
)
mapCase('F27.catalog', 'what a client may offer, and what is chosen by default', async () => {
  const found = new Map((await catalog()).map((tool) => [tool.name, tool]))
  for (const name of ['terminal', 'file_editor', 'task_tracker'])
    expect(found.get(name)).toMatchObject({ user_selectable: true, usable: true, in_default_set: true })
  for (const name of ['glob', 'grep'])
    expect(found.get(name)).toMatchObject({ user_selectable: true, in_default_set: false })
  for (const name of ['task', 'planning_file_editor', 'route_task_to_model'])
    expect(found.get(name)).toMatchObject({ user_selectable: false, description: '' })
})
mapCase('F27.hooks-project', 'the older spelling comes back in the newer one with defaults', async () => {
  const at = await project('pascal', {
    hooks: { PreToolUse: [{ matcher: 'terminal', hooks: [{ command: 'true' }] }] },
  })
  expect(await hooksOf(at)).toMatchObject({
    pre_tool_use: [{ matcher: 'terminal', hooks: [{ type: 'command', command: 'true', async: false }] }],
  })
})
mapCase('F27.hooks-formats', 'both spellings, prompts, and a matcher that was left out', async () => {
  const at = await project('formats', {
    pre_tool_use: command('true', { timeout: 7, async: true }),
    PostToolUse: [{ hooks: [{ type: 'prompt', prompt: 'Check it.' }] }],
  })
  expect(await hooksOf(at)).toMatchObject({
    pre_tool_use: [{ matcher: '*', hooks: [{ timeout: 7, async: true }] }],
    post_tool_use: [{ matcher: '*', hooks: [{ type: 'prompt', prompt: 'Check it.' }] }],
  })
})
mapCase('F27.hooks-absent', 'no hooks are null', async () => {
  expect(await hooksOf()).toBe(null)
  expect(await hooksOf(`${map.directory}/nothing`)).toBe(null)
  expect(await hooksOf(await project('elsewhere', { stop: command('true') }, '.agents'))).toBe(null)
  expect(await hooksOf(await project('empty', {}))).toBe(null)
  const body = { projectDir: map.directory }
  expect(await map.requestOrThrow('POST', '/api/hooks', { body })).toEqual({ hook_config: null })
})
mapCase('F27.hooks-invalid', 'hooks that cannot be read are null', async () => {
  const bad = ['{bad', { NoSuchEvent: command('true') }, { no_such_event: command('true') }]
  const both = { PreToolUse: command('true'), pre_tool_use: command('true') }
  const noCommand = { pre_tool_use: [{ hooks: [{ type: 'command' }] }] }
  for (const [n, hooks] of [...bad, both, noCommand].entries())
    expect([n, await hooksOf(await project(`bad-${n}`, hooks))]).toEqual([n, null])
})
/** A conversation that plays replies after one message. */
async function converse(replies: Parameters<MapClient['conversationRequest']>[0], more: object = {}) {
  const { id } = await map.createConversation(replies, { autotitle: false, ...more })
  await map.sendMessage(id, 'Go.', true)
  const info = await map.waitForStatus(id, 'finished')
  return { id, info, events: await map.getEvents(id) }
}
mapCase('F27.hooks-conversation', 'hooks of the request run and are stored', async () => {
  const at = await project('run', { post_tool_use: command('echo hook-ran') })
  const hook_config = await hooksOf(at)
  const model = await map.openModel(commandReply('true'), finishReply())
  const { info, events } = await converse(model, { hook_config, workspace: { working_dir: at } })
  expect(JSON.stringify(events.filter(({ kind }) => kind === 'HookExecutionEvent'))).toContain('hook-ran')
  expect(info.hook_config).toMatchObject(hook_config ?? {})
})
mapCase('F27.hooks-not-automatic', 'hooks of a project do not run on their own', async () => {
  const at = await project('quiet', { post_tool_use: command('echo hook-ran') })
  const model = await map.openModel(commandReply('true'), finishReply())
  const { events } = await converse(model, { workspace: { working_dir: at } })
  expect(events.filter(({ kind }) => kind === 'HookExecutionEvent')).toEqual([])
})
mapCase('F27.hooks-block', 'a hook that exits with 2 stops a call or a prompt', async () => {
  const file = `${map.directory}/blocked-file`
  const model = await map.openModel(commandReply(`touch '${file}'`), finishReply())
  const hook_config = {
    pre_tool_use: [
      { matcher: 'terminal', hooks: [{ type: 'command', command: 'echo not-here >&2; exit 2' }] },
    ],
  }
  const { events } = await converse(model, { hook_config })
  expect(events.find(({ kind }) => kind === 'HookExecutionEvent')).toMatchObject({ blocked: true })
  expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
    rejection_source: 'hook',
    rejection_reason: expect.stringContaining('not-here'),
  })
  expect(await map.runCommand(`test -e '${file}' || echo none`)).toBe('none\n')
  const silent = await map.openModel(finishReply())
  const prompt = { user_prompt_submit: [{ matcher: '*', hooks: [{ type: 'command', command: 'exit 2' }] }] }
  await converse(silent, { hook_config: prompt })
  expect(silent.requests).toEqual([])
})
mapCase('F27.subagents-builtin', 'four agents of the server', async () => {
  const found = await agents({ load_user: false, load_project: false })
  expect(found.map(({ name }) => name).sort()).toEqual(builtins)
  for (const agent of found) expect(agent).toMatchObject({ level: 'builtin', is_builtin: true })
  for (const { mcp_servers, mcp_config } of found) expect(mcp_servers ?? null).toEqual(mcp_config ?? null)
  expect(await names({ ...onlyProject, load_project: false })).toEqual([])
})
mapCase('F27.subagents-project', 'definitions of a project with all their members', async () => {
  const project_dir = `${map.directory}/agents`
  const front =
    'tools: [terminal]\nskills: [one]\ncolor: blue\npermission_mode: never_confirm\nmax_iteration_per_run: 7\nmap_extra: x\n'
  const file = `${project_dir}/.agents/agents/map-one.md`
  await map.upload(file, agentText('map-one', front))
  await map.upload(`${project_dir}/.openhands/agents/map-two.md`, agentText('map-two'))
  const found = await agents({ ...onlyProject, project_dir })
  expect(found).toMatchObject([
    {
      name: 'map-one',
      level: 'project',
      is_builtin: false,
      source: file,
      tools: ['terminal'],
      skills: ['one'],
      color: 'blue',
      permission_mode: 'never_confirm',
      max_iteration_per_run: 7,
      metadata: { map_extra: 'x' },
      system_prompt: expect.stringContaining('I am map-one.'),
    },
    { name: 'map-two', level: 'project' },
  ])
})
mapCase(
  'F27.subagents-user',
  'definitions of the user, when they are asked for',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    await server.upload(`${server.home}/.agents/agents/map-user.md`, agentText('map-user'))
    const body = { load_builtin: false, load_project: false }
    expect(await agents(body, server)).toMatchObject([{ name: 'map-user', level: 'user' }])
    expect(await names({ ...body, load_user: false }, server)).toEqual([])
  },
  own,
)
mapCase('F27.subagents-precedence', 'the first definition of a name wins', async () => {
  const project_dir = `${map.directory}/precedence`
  const file = `${project_dir}/.agents/agents/bash-runner.md`
  await map.upload(file, agentText('bash-runner'))
  await map.upload(`${project_dir}/.openhands/agents/bash-runner.md`, agentText('bash-runner'))
  const found = (await agents({ load_user: false, project_dir })).filter(({ name }) => name === 'bash-runner')
  expect(found).toMatchObject([{ level: 'project', source: file }])
})
mapCase('F27.subagents-invalid', 'definitions that are none are left out', async () => {
  const at = `${map.directory}/invalid/.agents/agents`
  await map.upload(`${at}/map-mode.md`, agentText('map-mode', 'permission_mode: perhaps\n'))
  await map.upload(`${at}/map-zero.md`, agentText('map-zero', 'max_iteration_per_run: 0\n'))
  await map.upload(`${at}/README.md`, 'Nothing.')
  await map.upload(`${at}/map-good.md`, agentText('map-good'))
  expect(await names({ ...onlyProject, project_dir: `${map.directory}/invalid` })).toEqual(['map-good'])
})
mapCase('F27.subagents-bad-skill', 'an unknown skill of a definition breaks no conversation', async () => {
  const at = `${map.directory}/bad-skill`
  await map.upload(`${at}/.agents/agents/map-bad.md`, agentText('map-bad', 'skills: [no-such-skill]\n'))
  const model = await map.openModel(finishReply())
  await converse(model, { workspace: { working_dir: at } })
})
const clientTool = (name: string, description = 'Asks the client.') => ({
  name,
  description,
  parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
})
mapCase('F27.catalog-sealed', 'tools of a client are not in the catalog', async () => {
  const model = await map.openModel(finishReply())
  const made = await map.createConversation(model, { client_tools: [clientTool('map_sealed')] })
  expect(JSON.stringify(made)).toContain('map_sealed')
  expect((await catalog()).map(({ name }) => name)).not.toContain('map_sealed')
})
const callsClientTool = async (statusOfOtherSchema: number) => {
  const model = await map.openModel(toolReply('map_ask', { text: 'hi' }), finishReply())
  const { events } = await converse(model, { client_tools: [clientTool('map_ask')] })
  const action = events.find(({ kind, tool_name }) => kind === 'ActionEvent' && tool_name === 'map_ask')
  expect(action?.action).toMatchObject({ kind: 'ClientAction_map_ask', text: 'hi' })
  expect(JSON.stringify(events)).toContain('Tool call dispatched to client.')
  for (const [status, client_tools] of [
    [422, [clientTool('map_two'), clientTool('map_two')]],
    [422, [clientTool('terminal')]],
    [201, [clientTool('map_ask')]],
    [statusOfOtherSchema, [{ ...clientTool('map_ask'), parameters: { type: 'object', properties: {} } }]],
  ] as const) {
    const body = map.conversationRequest(model, { client_tools })
    await expectAnswer(map, status, 'POST', '/api/conversations', { body })
  }
}
differs(
  'F27.client-tool-call',
  'the client sees the call, the server acknowledges it',
  'client tools of one name with other parameters in another conversation',
  () => callsClientTool(201),
  () => callsClientTool(422),
)
mapCase('F27.agent-definitions', 'definitions of the request can be delegated to', async () => {
  const model = await map.openModel(
    toolReply('task', { prompt: 'Do it.', description: 'Work', subagent_type: 'map-helper' }),
    finishReply('Helped.'),
    finishReply(),
  )
  const agent_definitions = [{ name: 'map-helper', description: 'Helps.', tools: [], system_prompt: 'Help.' }]
  const { agent } = map.conversationRequest(model) as { agent: object }
  const { events } = await converse(model, {
    agent_definitions,
    agent: { ...agent, tools: [{ name: 'task_tool_set' }] },
  })
  expect(JSON.stringify(events.filter(({ kind }) => kind === 'ObservationEvent'))).toContain('map-helper')
  expect(await names({})).not.toContain('map-helper')
})
const noPython = 'the server runs no Python: its own tools come from MCP servers and plugins'
notApplicable('F27.custom-tool-modules', 'Python modules with tools', noPython)
notApplicable('F27.import-modules', 'Python modules at the start', noPython)
notApplicable('F27.custom-tool-missing-on-resume', 'a Python module that is gone', noPython)
/** A server that finds a browser below a folder of Playwright; it is never started. */
async function openWithBrowser(env: Readonly<Record<string, string>> = {}, at = '.cache/ms-playwright') {
  const server = await OwnMapServer.open({ key: 'map-key-2', env })
  const folder = `${at.startsWith('/') ? at : `${server.home}/${at}`}/chromium-1200/chrome-linux`
  await mkdir(folder, { recursive: true })
  await writeFile(`${folder}/chrome`, '', { mode: 0o755 })
  return server
}
async function browserOf(server: MapClient) {
  const { tools } = await server.requestOrThrow<{ tools: Tool[] }>('GET', '/api/tools/catalog')
  const info = await server.requestOrThrow<{ usable_tools: string[] }>('GET', '/server_info')
  return {
    isUsable: tools.find(({ name }) => name === 'browser_tool_set')?.usable,
    isAnnounced: info.usable_tools.includes('browser_tool_set'),
  }
}
const usable = { isUsable: true, isAnnounced: true }
mapCase(
  'F27.browser-playwright-path',
  'a browser of Playwright is found by its variable',
  async () => {
    const folder = `${map.directory}/playwright`
    await using server = await openWithBrowser({ PLAYWRIGHT_BROWSERS_PATH: folder }, folder)
    expect(await browserOf(server)).toEqual(usable)
  },
  own,
)
mapCase(
  'F27.browser-probe',
  'the browser is offered where there is one',
  async () => {
    await using server = await openWithBrowser()
    expect(await browserOf(server)).toEqual(usable)
  },
  own,
)
const off = { SLIPWAY_BROWSER: 'false' }
differs(
  'F27.browser-disabled-launch',
  'agents of default tools have no browser where it is switched off',
  'default tools of an agent',
  async () => {
    for (const env of [{}, off]) {
      await using server = await openWithBrowser(env)
      const { agent_settings } = await server.requestOrThrow<Json>('GET', '/api/settings')
      const body = { agent_settings, workspace: { working_dir: server.directory }, autotitle: false }
      const { agent } = await server.requestOrThrow<Json>('POST', '/api/conversations', { body })
      const names = (agent as { tools: Tool[] }).tools.map(({ name }) => name)
      expect(names).toEqual(['terminal', 'file_editor', 'task_tracker'])
    }
  },
)
mapCase(
  'F27.browser-disabled',
  'a switch for the browser: the catalog',
  async () => {
    await using server = await openWithBrowser(off)
    expect((await browserOf(server)).isUsable).toBe(false)
    expect(await server.requestOrThrow('GET', '/api/tools/')).toContain('browser_tool_set')
  },
  own,
)
mapCase(
  'F27.server-info-browser-disabled',
  'a switch for the browser: /server_info',
  async () => {
    await using server = await openWithBrowser(off)
    expect((await browserOf(server)).isAnnounced).toBe(false)
  },
  own,
)
mapCase(
  'F27.subagents-browser-disabled',
  'a switch for the browser: agents',
  async () => {
    await using server = await openWithBrowser(off)
    const found = await names({ load_user: false, load_project: false }, server)
    expect(found.sort()).toEqual(builtins.filter((name) => name !== 'web-researcher'))
  },
  own,
)
notApplicable(
  'F27.catalog-docker-runtime',
  'tools of a container',
  'an agent server runs in its sandbox and looks for its own tools',
)

endFamily('F27', 31)
