import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  AgentDriver,
  type ConversationInfo,
  eventLabel,
  finishStep,
  scriptedModel,
} from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi, type ApiEvent } from '../support/agent-server-api.ts'
import { findLeaks, plantSecret } from '../support/canaries.ts'

type Server = Awaited<ReturnType<typeof startAgentServer>>
let base: string
let server: Server
let api: AgentServerApi
let driver: AgentDriver

const fixturePath = (path: string) => join(base, path)

async function writeFixture(path: string, content: unknown): Promise<string> {
  await mkdir(dirname(fixturePath(path)), { recursive: true })
  await writeFile(fixturePath(path), typeof content === 'string' ? content : JSON.stringify(content))
  return fixturePath(path)
}

function git(path: string, ...args: string[]): string {
  const who = ['-c', 'user.name=t', '-c', 'user.email=t@t.test', '-c', 'init.defaultBranch=main']
  return execFileSync('git', [...who, ...args], { cwd: fixturePath(path), stdio: ['ignore', 'pipe', 'pipe'] })
    .toString()
    .trim()
}

const skillText = (name: string, more = '') =>
  `---\nname: ${name}\ndescription: About ${name}.\n${more}---\nDo ${name}.\n`

/** A repository with a marketplace: a plugin, a skill, and a remote plugin. */
async function createMarketplace(path: string): Promise<void> {
  await writeFixture(`${path}/.claude-plugin/marketplace.json`, {
    name: 'theirs',
    plugins: [
      { name: 'weather', source: './plugins/weather', description: 'Tells the weather' },
      { name: 'lonely', source: './skills/lonely' },
      { name: 'broken', source: './plugins/broken' },
      { name: 'far', source: { source: 'url', url: 'https://127.0.0.1:1/far.git' } },
    ],
  })
  await writeFixture(`${path}/plugins/weather/.claude-plugin/plugin.json`, {
    name: 'weather',
    version: '3.0.0',
  })
  await writeFixture(`${path}/plugins/weather/skills/forecast/SKILL.md`, skillText('forecast'))
  await writeFixture(
    `${path}/plugins/weather/commands/rain.md`,
    '---\ndescription: Whether it rains\n---\nLook outside.\n',
  )
  await writeFixture(`${path}/plugins/weather/.mcp.json`, {
    mcpServers: {
      clouds: { command: 'true', env: { CLOUD_TOKEN: plantSecret('plugin-server') }, disabled: true },
    },
  })
  await writeFixture(`${path}/plugins/broken/README.md`, 'x')
  await writeFixture(`${path}/skills/lonely/SKILL.md`, skillText('lonely'))
  git(path, 'init', '-q')
  git(path, 'add', '-A')
  git(path, 'commit', '-q', '-m', 'x')
}

const env = () => ({
  HOME: fixturePath('home'),
  SLIPWAY_LOG_LEVEL: 'debug',
  SLIPWAY_SKILLS_SOURCE: `file://${fixturePath('public')}`,
  SLIPWAY_MARKETPLACES: JSON.stringify([
    { name: 'ours', source: `file://${fixturePath('market')}` },
    { name: 'local', source: fixturePath('market') },
  ]),
})

async function startServerAndDriver(): Promise<void> {
  server = await startAgentServer(fixturePath('data'), env())
  api = new AgentServerApi({ url: server.url, headers: {} })
  driver = new AgentDriver({ api, directory: fixturePath('work') })
}

beforeAll(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'slipway-extensions-')))
  for (const path of ['home', 'work', 'market']) await mkdir(fixturePath(path))
  await createMarketplace('market')
  await writeFixture('public/skills/shared/SKILL.md', skillText('shared'))
  await writeFixture('public/skills/extra/SKILL.md', skillText('extra'))
  await writeFixture('public/marketplaces/default.json', {
    plugins: [{ name: 'shared', source: './skills/shared' }],
  })
  git('public', 'init', '-q')
  git('public', 'add', '-A')
  git('public', 'commit', '-q', '-m', 'x')
  await startServerAndDriver()
})
afterAll(async () => {
  await server.stop()
  await rm(base, { recursive: true, force: true })
})

interface NamedItem {
  readonly name: string
  readonly [member: string]: unknown
}

const names = (list: readonly NamedItem[]) => list.map(({ name }) => name)

async function get<T>(path: string, status = 200): Promise<T> {
  const answer = await api.requestJson<T>(path)
  expect(answer.status).toBe(status)
  return answer.body
}

async function send<T>(method: string, path: string, body?: unknown): Promise<{ status: number; body: T }> {
  const answer =
    body === undefined ? await api.requestJson<T>(path, { method }) : await api.sendJson(method, path, body)
  return answer as { status: number; body: T }
}

const isUserMessage = ({ kind, source }: ApiEvent) => kind === 'MessageEvent' && source === 'user'

function dynamicContext(events: readonly ApiEvent[]): string {
  return JSON.stringify(events.filter(({ kind }) => kind === 'SystemPromptEvent').at(-1)?.dynamic_context)
}

test('skills of all sources are counted and listed, and unreachable sources add none', async () => {
  await writeFixture('home/.agents/skills/mine/SKILL.md', skillText('mine'))
  await writeFixture('org/skills/guild/SKILL.md', skillText('guild'))
  git('org', 'init', '-q')
  git('org', 'add', '-A')
  git('org', 'commit', '-q', '-m', 'x')
  await writeFixture('project/.agents/skills/shared/SKILL.md', skillText('shared'))
  const body = {
    project_dir: fixturePath('project'),
    registered_marketplaces: [
      { name: 'given', source: fixturePath('market'), auto_load: ['lonely', 'weather'] },
    ],
    org_configs: [
      { repository: 'o/r', provider: 'github', org_repo_url: `file://${fixturePath('org')}`, org_name: 'o' },
      { org_repo_url: `https://x:${plantSecret('org-token')}@127.0.0.1:1/o.git`, org_name: 'gone' },
      { org_repo_url: 'ext::sh -c id', org_name: 'bad' },
    ],
    sandbox_config: { exposed_urls: [{ name: 'WORKER_1', url: 'https://app.test', port: 3000 }] },
  }
  const all = await send<{ skills: NamedItem[]; sources: object }>('POST', '/api/skills', body)
  expect(all.status).toBe(200)
  expect(names(all.body.skills)).toEqual([
    'extra',
    'forecast',
    'guild',
    'lonely',
    'mine',
    'shared',
    'weather:rain',
    'work_hosts',
  ])
  expect(all.body.sources).toEqual({
    sandbox: 1,
    registered_marketplaces: 3,
    sdk_base: 2,
    org: 1,
    project: 1,
  })
  expect(all.body.skills.find(({ name }) => name === 'work_hosts')).toMatchObject({
    content: expect.stringContaining('https://app.test (port 3000)'),
  })
  const few = {
    load_public: true,
    load_user: false,
    load_org: false,
    marketplace_path: 'marketplaces/default.json',
    project_dir: 'workspace/project',
  }
  expect(names((await send<{ skills: NamedItem[] }>('POST', '/api/skills', few)).body.skills)).toEqual([
    'shared',
  ])
  expect((await send('POST', '/api/skills', { registered_marketplaces: [{ name: 'x' }] })).status).toBe(422)
  expect(findLeaks(JSON.stringify(all.body) + server.output())).toEqual([])
})

test('sync fetches changes, and reports what it cannot fetch', async () => {
  await writeFixture('public/skills/brand-new/SKILL.md', skillText('brand-new'))
  git('public', 'add', '-A')
  git('public', 'commit', '-q', '-m', 'y')
  expect(names((await send<{ skills: NamedItem[] }>('POST', '/api/skills')).body.skills)).not.toContain(
    'brand-new',
  )
  const { body } = await send<{ status: string; message: string }>('POST', '/api/skills/sync')
  expect(body).toEqual({
    status: 'success',
    message: expect.stringContaining('the public collection has 3 skills'),
  })
  expect(names((await send<{ skills: NamedItem[] }>('POST', '/api/skills')).body.skills)).toContain(
    'brand-new',
  )
})

test('a skill of the catalogue is installed by its source, loaded by agents, disabled and uninstalled', async () => {
  const before = await get<{ skills: (NamedItem & { source: string })[] }>('/api/skills/marketplace')
  expect(names(before.skills).sort()).toEqual(['brand-new', 'extra', 'lonely', 'shared'])
  const listed = before.skills.find(({ name }) => name === 'extra')
  expect(listed).toEqual({
    name: 'extra',
    description: 'About extra.',
    source: `file://${fixturePath('public')}#skills/extra`,
    installed: false,
  })
  const installed = await send<NamedItem>('POST', '/api/skills/install', { source: listed?.source })
  expect(installed).toMatchObject({
    status: 200,
    body: {
      name: 'extra',
      version: '1.0.0',
      enabled: true,
      repo_path: null,
      resolved_ref: expect.stringMatching(/^[0-9a-f]{40}$/),
    },
  })
  expect(await send('POST', '/api/skills/install', { source: listed?.source })).toMatchObject({ status: 409 })
  expect(await get<{ skills: NamedItem[] }>('/api/skills/installed')).toEqual({ skills: [installed.body] })
  const marked = await get<{ skills: NamedItem[] }>('/api/skills/marketplace')
  expect(marked.skills.find(({ name }) => name === 'extra')).toMatchObject({ installed: true })
  const first = await driver.createScripted([finishStep()])
  expect(dynamicContext(await driver.waitUntilIdle(first.id))).toContain('extra: About extra.')
  expect(await send('PATCH', '/api/skills/installed/extra', { enabled: false })).toEqual({
    status: 200,
    body: { name: 'extra', enabled: false },
  })
  const second = await driver.createScripted([finishStep()])
  expect(dynamicContext(await driver.waitUntilIdle(second.id))).not.toContain('extra')
  expect((await send('PATCH', '/api/skills/installed/extra', {})).status).toBe(422)
  expect(await send('POST', '/api/skills/installed/extra/refresh')).toMatchObject({
    status: 200,
    body: { skill: { name: 'extra', enabled: false } },
  })
  await server.stop()
  await startServerAndDriver()
  expect(await get<{ skills: NamedItem[] }>('/api/skills/installed')).toMatchObject({
    skills: [{ name: 'extra', enabled: false }],
  })
  expect(await send('DELETE', '/api/skills/installed/extra')).toEqual({
    status: 200,
    body: { message: expect.any(String) },
  })
  for (const [method, path, body] of [
    ['GET', '/api/skills/installed/extra', undefined],
    ['DELETE', '/api/skills/installed/extra', undefined],
    ['PATCH', '/api/skills/installed/extra', { enabled: true }],
    ['POST', '/api/skills/installed/extra/refresh', undefined],
    ['GET', '/api/plugins/installed/constructor', undefined],
    ['DELETE', '/api/plugins/installed/nothing', undefined],
  ] as const) {
    expect((await send(method, path, body)).status, `${method} ${path}`).toBe(404)
  }
})

test('a single skill of a marketplace is installed by the source in the catalogue', async () => {
  const { skills } = await get<{ skills: (NamedItem & { source: string })[] }>('/api/skills/marketplace')
  const source = skills.find(({ name }) => name === 'lonely')?.source
  expect(await send('POST', '/api/skills/install', { source })).toMatchObject({
    status: 200,
    body: { name: 'lonely' },
  })
  expect((await send('DELETE', '/api/skills/installed/lonely')).status).toBe(200)
})

test('an invalid source or skill is refused with its location', async () => {
  for (const [body, status, loc] of [
    [{}, 422, ['body', 'source']],
    [{ source: '' }, 422, ['body', 'source']],
    [{ source: '../x' }, 400, undefined],
    [{ source: 'ext::sh -c id' }, 400, undefined],
    [{ source: fixturePath('market'), ref: '--upload-pack=id' }, 400, undefined],
    [{ source: fixturePath('market'), repo_path: '../x' }, 400, undefined],
    [{ source: fixturePath('market') }, 422, ['body', 'source']],
    [{ source: fixturePath('nothing') }, 400, undefined],
    [{ source: `https://u:${plantSecret('install-password')}@127.0.0.1:1/x.git` }, 400, undefined],
  ] as const) {
    for (const path of ['/api/skills/install', '/api/plugins/install']) {
      const answer = await send<{ detail: unknown }>('POST', path, body)
      expect(answer.status, JSON.stringify(body)).toBe(status)
      if (loc !== undefined) expect(answer.body.detail).toMatchObject([{ loc }])
      expect(findLeaks(JSON.stringify(answer.body))).toEqual([])
    }
  }
})

test('an installed plugin is loaded into every new conversation until it is disabled', async () => {
  const catalogue = await get<{ plugins: NamedItem[] }>('/api/plugins/marketplace')
  expect(catalogue.plugins).toMatchObject([
    {
      name: 'weather',
      description: 'Tells the weather',
      source: `file://${fixturePath('market')}`,
      ref: null,
      repo_path: 'plugins/weather',
      installed: false,
      path: expect.stringMatching(/\/plugins\/weather$/),
      skills: [{ name: 'forecast' }, { name: 'weather:rain' }],
      files: expect.arrayContaining(['commands/rain.md']),
    },
    { name: 'broken', installed: false, skills: null, files: null },
    { name: 'far', source: 'https://127.0.0.1:1/far.git', repo_path: null },
    {
      name: 'weather',
      source: fixturePath('market/plugins/weather'),
      path: fixturePath('market/plugins/weather'),
    },
    { name: 'broken' },
    { name: 'far' },
  ])
  const [{ source, repo_path } = { source: '', repo_path: '' }] = catalogue.plugins
  const installed = await send<NamedItem>('POST', '/api/plugins/install', { source, repo_path })
  expect(installed).toMatchObject({
    status: 200,
    body: {
      name: 'weather',
      version: '3.0.0',
      skills: [{ name: 'forecast', description: 'About forecast.' }, { name: 'weather:rain' }],
    },
  })
  const members =
    'description enabled files install_path installed_at name repo_path resolved_ref skills source version'
  expect(Object.keys(installed.body).sort()).toEqual(members.split(' '))
  expect(await get('/api/plugins/installed')).toEqual({ plugins: [installed.body] })
  const index = await readFile(fixturePath('data/plugins/installed.json'), 'utf8')
  expect(findLeaks(JSON.stringify([catalogue, installed.body]) + index)).toEqual([])
  const { id } = await driver.createScripted([finishStep()], {
    initial_message: { content: [{ type: 'text', text: '/rain' }] },
  })
  const events = await driver.waitUntilIdle(id)
  expect(dynamicContext(events)).toContain('forecast')
  expect(events.find(({ kind }) => kind === 'MessageEvent')).toMatchObject({
    activated_skills: ['weather:rain'],
  })
  expect((await send('PATCH', '/api/plugins/installed/weather', { enabled: false })).status).toBe(200)
  const other = await driver.createScripted([finishStep()])
  expect(dynamicContext(await driver.waitUntilIdle(other.id))).not.toContain('forecast')
  expect(await send('POST', '/api/plugins/installed/weather/refresh')).toMatchObject({
    status: 200,
    body: { plugin: { enabled: false } },
  })
  expect((await send('DELETE', '/api/plugins/installed/weather')).status).toBe(200)
  expect(await get('/api/plugins/installed')).toEqual({ plugins: [] })
})

test('plugins in folders of the user and of a project are listed', async () => {
  await writeFixture('home/.agents/plugins/mine/plugin.json', { name: 'mine', description: 'of the user' })
  await writeFixture('home/.openhands/plugins/both/plugin.json', { name: 'both', description: 'of the user' })
  await writeFixture('project/.agents/plugins/both/.plugin/plugin.json', {
    name: 'both',
    version: '2',
    description: 'of the project',
  })
  await writeFixture('project/.agents/plugins/bad/plugin.json', '{')
  const { body } = await send<{ plugins: NamedItem[] }>('POST', '/api/plugins', {
    project_dir: fixturePath('project'),
  })
  expect(body.plugins).toEqual([
    {
      name: 'both',
      version: '2',
      description: 'of the project',
      path: fixturePath('project/.agents/plugins/both'),
      skills: [],
      files: ['.plugin/plugin.json'],
    },
    {
      name: 'mine',
      version: '1.0.0',
      description: 'of the user',
      path: fixturePath('home/.agents/plugins/mine'),
      skills: [],
      files: ['plugin.json'],
    },
  ])
  expect(
    (
      await send<{ plugins: NamedItem[] }>('POST', '/api/plugins', {
        load_user: false,
        project_dir: 'not/there',
      })
    ).body.plugins,
  ).toEqual([])
  expect((await send('POST', '/api/plugins', { project_dir: 'a\0b' })).status).toBe(422)
  expect(await get('/api/canvas-extensions/installed')).toEqual({ canvas_extensions: [] })
})

test('a plugin of a marketplace is loaded into a conversation, and stays with it and its forks', async () => {
  const { id } = await driver.createScripted([finishStep('One.'), finishStep('Two.')])
  await driver.waitUntilIdle(id)
  expect(await driver.post(id, 'load_plugin', { plugin_ref: 'weather@ours' })).toEqual({
    status: 200,
    body: { success: true },
  })
  await driver.sendMessage(id, '/rain now')
  const events = await driver.waitUntilIdle(id)
  expect(findLeaks(JSON.stringify([events, await driver.getInfo(id)]))).toEqual([])
  expect(dynamicContext(events)).toContain('forecast')
  expect(
    events.find(({ kind, key }) => kind === 'ConversationStateUpdateEvent' && key === 'agent'),
  ).toBeDefined()
  expect(events.filter(isUserMessage).at(-1)).toMatchObject({
    activated_skills: ['weather:rain'],
  })
  const fork = (await driver.post(id, 'fork', {})).body as ConversationInfo
  await driver.sendMessage(fork.id, '/rain again')
  const forked = await driver.waitUntilIdle(fork.id)
  expect(forked.filter(isUserMessage).at(-1)).toMatchObject({
    activated_skills: ['weather:rain'],
  })
})

test('an unknown plugin is 404, another reference 400, and neither changes the conversation', async () => {
  const { id } = await driver.createScripted([finishStep()])
  const before = (await driver.waitUntilIdle(id)).length
  for (const [plugin_ref, status] of [
    ['weather@nowhere', 404],
    ['nothing@ours', 404],
    ['nothing', 404],
    ['lonely@ours', 404],
    ['@ours', 400],
    ['weather@', 400],
    ['weather', 400],
    ['broken@ours', 400],
    ['far@ours', 400],
  ] as const) {
    const answer = await driver.post(id, 'load_plugin', { plugin_ref })
    expect(answer.status, plugin_ref).toBe(status)
  }
  expect((await driver.post(id, 'load_plugin', {})).status).toBe(422)
  expect((await driver.post(randomUUID(), 'load_plugin', { plugin_ref: 'weather@ours' })).status).toBe(404)
  expect(await driver.getEvents(id)).toHaveLength(before)
})

test('a plugin of a marketplace that the request registers is found by its name', async () => {
  const agent_context = {
    registered_marketplaces: [{ name: 'private', source: fixturePath('market'), auto_load: ['lonely'] }],
  }
  const created = await driver.create({ llm: scriptedModel([finishStep()]), agent_context })
  expect((await driver.post(created.id, 'load_plugin', { plugin_ref: 'weather@private' })).status).toBe(200)
  await driver.sendMessage(created.id, 'go')
  expect(dynamicContext(await driver.waitUntilIdle(created.id))).toMatch(/forecast.*lonely/s)
})

test('public skills are loaded for agents that enable them; with a marketplace file only those that it lists', async () => {
  const promptWith = async (agent_context: object) => {
    const initial_message = { content: [{ type: 'text', text: 'Begin.' }] }
    const { id } = await driver.create(
      { llm: scriptedModel([finishStep()]), agent_context },
      { initial_message },
    )
    return dynamicContext(await driver.waitUntilIdle(id))
  }
  expect(await promptWith({ load_public_skills: true })).toMatch(/extra: About extra.*shared: About shared/s)
  const chosen = await promptWith({ load_public_skills: true, marketplace_path: 'marketplaces/default.json' })
  expect(chosen).toContain('shared: About shared')
  expect(chosen).not.toContain('extra: About')
  expect(await promptWith({ load_public_skills: true, disabled_skills: ['shared'] })).not.toContain(
    'shared: About',
  )
  expect(await promptWith({})).not.toContain('shared: About')
})

test('plugins of the request are pinned to their versions at the first step', async () => {
  await writeFixture('moving/plugin.json', { name: 'moving' })
  await writeFixture('moving/skills/old/SKILL.md', skillText('old'))
  git('moving', 'init', '-q')
  git('moving', 'add', '-A')
  git('moving', 'commit', '-q', '-m', 'x')
  const plugins = [{ source: `file://${fixturePath('moving')}`, ref: 'main', unheard_of: 1 }]
  const { id } = await driver.createScripted([finishStep(), finishStep()], { plugins })
  expect(dynamicContext(await driver.waitUntilIdle(id))).toContain('old: About old.')
  git('moving', 'mv', 'skills/old', 'skills/young')
  await writeFixture('moving/skills/young/SKILL.md', skillText('young'))
  git('moving', 'commit', '-q', '-a', '-m', 'y')
  await server.stop('SIGKILL')
  await rm(fixturePath('moving'), { recursive: true })
  await startServerAndDriver()
  await driver.sendMessage(id, '/old one')
  const events = await driver.waitUntilIdle(id)
  expect(events.filter(isUserMessage).at(-1)).toMatchObject({
    activated_skills: ['old'],
  })
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
})

test('a plugin that cannot be fetched is an error of the conversation, and its password does not leak', async () => {
  const source = `https://user:${plantSecret('plugin-password')}@127.0.0.1:1/x.git`
  const { id } = await driver.createScripted([finishStep()], {
    plugins: [{ source, token: plantSecret('plugin-token') }],
  })
  const events = await driver.waitUntilIdle(id)
  expect(events.map(eventLabel)).toContain('ConversationErrorEvent:PluginError')
  expect(findLeaks(JSON.stringify([events, await driver.getInfo(id)]))).toEqual([])
  expect(
    (await driver.tryCreate({ llm: scriptedModel([]) }, { plugins: [{ source: 'ext::sh -c id' }] })).status,
  ).toBe(422)
  await server.stop()
  expect(findLeaks(server.output())).toEqual([])
  const files = await readdir(fixturePath('data'), { recursive: true, withFileTypes: true })
  // A plugin's own secrets are in its own file, and in no other.
  for (const file of files.filter((entry) => entry.isFile() && entry.name !== '.mcp.json')) {
    expect(findLeaks(await readFile(join(file.parentPath, file.name))), file.name).toEqual([])
  }
  await startServerAndDriver()
})

test('without a collection there is nothing to sync, and the reply names the setting', async () => {
  const plain = await startAgentServer(fixturePath('plain'), { HOME: fixturePath('home') })
  try {
    const other = new AgentServerApi({ url: plain.url, headers: {} })
    expect(await other.requestJson('/api/skills/sync', { method: 'POST' })).toEqual({
      status: 200,
      body: { status: 'error', message: expect.stringContaining('SLIPWAY_SKILLS_SOURCE') },
    })
    expect(await other.requestJson('/api/skills/marketplace')).toEqual({ status: 200, body: { skills: [] } })
    expect(await other.requestJson('/api/plugins/marketplace')).toEqual({
      status: 200,
      body: { plugins: [] },
    })
  } finally {
    await plain.stop()
  }
})

test('invalid source settings stop the server with their location and without their value', {
  timeout: 180_000,
}, async () => {
  for (const [name, value] of [
    ['SLIPWAY_SKILLS_SOURCE', 'relative/path'],
    ['SLIPWAY_MARKETPLACES', '{'],
    ['SLIPWAY_MARKETPLACES', '{}'],
    ['SLIPWAY_MARKETPLACES', '[{"name": "x"}]'],
    ['SLIPWAY_MARKETPLACES', `[{"name": "x", "source": "http://u:${plantSecret('setting')}@h.test/x"}]`],
    ['SLIPWAY_MARKETPLACES', '[{"name": "x", "source": "/x"}, {"name": "x", "source": "/y"}]'],
  ] as const) {
    const started: unknown = await startAgentServer(fixturePath('bad'), { [name]: value }).catch(
      (error: unknown) => error,
    )
    expect(String(started)).toContain(name)
    expect(findLeaks(String(started))).toEqual([])
  }
})
