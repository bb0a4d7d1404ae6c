import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ExtensionSource } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CommonExtensions, type ExtensionProvider, PluginLoadError } from '../../plugins/extensions.ts'
import { readPlugin } from '../../plugins/plugin.ts'
import {
  ConversationFixtures,
  contentText,
  createLatch,
  FakeModel,
  type TestConversation,
  waitUntil,
} from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const none: CommonExtensions = { plugins: [], installed: [], others: [], hasPublic: false, issues: [] }

/** Plugins of directories, found by their paths; `pinned` names a copy, as a fetched one. */
function directories(
  common: Partial<CommonExtensions> = {},
): ExtensionProvider & { readonly asked: string[] } {
  const requested: string[] = []
  return {
    asked: requested,
    loadCommon: async () => ({ ...none, ...common }),
    async loadPlugin({ source }, signal) {
      requested.push(source)
      const plugin = await readPlugin(source, signal)
      if ('issue' in plugin) throw new PluginLoadError(`The plugin ${plugin.issue}`)
      return { plugin, pinned: { source: plugin.directory, ref: 'pinned', repo_path: undefined } }
    },
  }
}

/** A server of MCP with one tool, in plain lines. */
const server = `
import { createInterface } from 'node:readline'
const send = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } })
  else if (method === 'tools/list') send(id, { tools: [{ name: process.argv[2], inputSchema: { type: 'object' } }] })
  else if (method === 'tools/call') send(id, { content: [{ type: 'text', text: 'said by ' + process.argv[2] + ' with ' + process.env.API_TOKEN }] })
})
`

const root = `$\{CLAUDE_PLUGIN_ROOT}`

/** A plugin with all that a plugin can have. */
async function plugin(name: string, more: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const directory = join(fixtures.directory, 'plugins', `${name}-${crypto.randomUUID()}`)
  const files: Record<string, unknown> = {
    '.claude-plugin/plugin.json': { name, version: '1.2.3', description: `About ${name}` },
    [`skills/${name}-skill/SKILL.md`]: `---\nname: ${name}-skill\ndescription: Skill of ${name}.\ntriggers: [weather]\n---\nRead ${root}/note.txt.\n`,
    [`commands/${name}-go.md`]: '---\ndescription: Goes\n---\nGo there.\n',
    'note.txt': 'The note.',
    'hooks/hooks.json': {
      hooks: {
        PreToolUse: [
          {
            matcher: 'terminal',
            hooks: [{ command: `cat "${root}/note.txt" > "$OPENHANDS_PROJECT_DIR/hooked"` }],
          },
        ],
      },
    },
    '.mcp.json': {
      mcpServers: {
        [name]: {
          command: process.execPath,
          args: [`${root}/server.mjs`, `${name}_tool`],
          env: { API_TOKEN: 'tok3n-of-the-plugin' },
        },
      },
    },
    'server.mjs': server,
    ...more,
  }
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true })
    await writeFile(join(directory, path), typeof content === 'string' ? content : JSON.stringify(content))
  }
  return directory
}

const agent = { tools: [{ name: 'terminal' }, { name: 'file_editor' }] }
const source = (path: string): ExtensionSource => ({ source: path, ref: undefined, repo_path: undefined })

async function promptOf(life: TestConversation): Promise<string> {
  const prompts = await life.eventsOfKind('SystemPromptEvent')
  return prompts.at(-1)?.dynamic_context?.text ?? ''
}

test('what a plugin of the request brings is there from the first step: skills, commands, hooks, servers', async () => {
  const directory = await plugin('alpha')
  const player = new FakeModel([
    {
      calls: [
        ['terminal', { command: 'true' }],
        ['alpha_tool', {}],
        ['file_editor', { command: 'view', path: join(directory, 'note.txt') }],
      ],
    },
  ])
  const extensions = directories()
  const life = await fixtures.create({
    model: player.open,
    agent,
    deps: { extensions },
    request: { plugins: [source(directory)] },
  })
  await life.sendAndWait('What is the weather? /alpha-go')
  expect(await promptOf(life)).toContain('alpha-skill: Skill of alpha.')
  expect(await promptOf(life)).not.toContain('alpha:alpha-go')
  const [message] = await life.eventsOfKind('MessageEvent')
  expect(message?.activated_skills).toEqual(['alpha-skill', 'alpha:alpha-go'])
  expect(contentText(message?.extended_content)).toContain(`Read ${directory}/note.txt.`)
  expect(contentText(message?.extended_content)).toContain('Go there.')
  expect(await readFile(join(life.workspace, 'hooked'), 'utf8')).toBe('The note.')
  const results = (await life.eventsOfKind('ObservationEvent')).map(({ observation }) =>
    contentText(observation.content),
  )
  expect(results[1]).toContain('said by alpha_tool with')
  expect(results[2]).toContain('The note.')
  expect(JSON.stringify(await life.events())).not.toContain('tok3n-of-the-plugin')
  expect(life.settings.plugins).toEqual([{ source: directory, ref: 'pinned', repo_path: undefined }])
  expect(life.status).toBe('finished')
})

test('a plugin that cannot be loaded fails the run with its code and not the message; the next run tries again', async () => {
  const directory = await plugin('beta')
  const away = `${directory}-away`
  await cp(directory, away, { recursive: true })
  await rm(directory, { recursive: true })
  const extensions = directories()
  const life = await fixtures.create({
    agent,
    deps: { extensions },
    request: { plugins: [source(directory)] },
  })
  await life.sendAndWait('weather')
  expect(await life.eventsOfKind('MessageEvent')).toHaveLength(1)
  expect(await life.eventsOfKind('ConversationErrorEvent')).toMatchObject([
    { code: 'PluginError', detail: 'The plugin is missing' },
  ])
  expect(life.status).toBe('error')
  expect(await life.eventsOfKind('SystemPromptEvent')).toEqual([])
  expect(await life.conversation.askSideQuestion('And?', new AbortController().signal)).toBe('Aside.')
  await cp(away, directory, { recursive: true })
  await life.sendAndWait('weather again')
  expect(life.status).toBe('finished')
  expect(await promptOf(life)).toContain('beta-skill')
  expect((await life.eventsOfKind('MessageEvent'))[1]?.activated_skills).toEqual(['beta-skill'])
})

test('without a port for plugins a conversation that asks for one fails, and no other', async () => {
  const life = await fixtures.create({ agent, request: { plugins: [source('/x')] } })
  await life.sendAndWait('go')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toMatchObject([{ code: 'PluginError' }])
  const other = await fixtures.create({ agent, request: { plugins: [] } })
  await other.sendAndWait('go')
  expect(other.status).toBe('finished')
})

test('a plugin that comes later is a fact without secrets, and there with the next step', async () => {
  const first = await plugin('gamma')
  const second = await plugin('delta')
  const player = new FakeModel([
    { text: 'One.' },
    {
      calls: [
        ['delta_tool', {}],
        ['gamma_tool', {}],
        ['terminal', { command: 'true' }],
      ],
    },
  ])
  const life = await fixtures.create({
    model: player.open,
    agent,
    deps: { extensions: directories() },
    request: { plugins: [source(first)] },
  })
  await life.sendAndWait('hello')
  await life.conversation.loadPlugin(source(second))
  const fact = (await life.eventsOfKind('ConversationStateUpdateEvent')).find(({ key }) => key === 'agent')
  expect(fact?.value).toMatchObject({
    kind: 'Agent',
    mcp_config: { gamma: { env: { API_TOKEN: '**********' } }, delta: { env: { API_TOKEN: '**********' } } },
  })
  expect(JSON.stringify(fact)).toContain('delta-skill')
  expect(life.settings.plugins).toMatchObject([{ source: first }, { source: second, is_untold: true }])
  await life.sendAndWait('weather')
  expect(await life.eventsOfKind('SystemPromptEvent')).toHaveLength(2)
  expect(await promptOf(life)).toMatch(/delta-skill/)
  expect(await promptOf(life)).toMatch(/gamma-skill/)
  expect(life.settings.plugins?.[1]).not.toHaveProperty('is_untold')
  const results = (await life.eventsOfKind('ObservationEvent')).map(({ observation }) =>
    contentText(observation.content),
  )
  expect(results[0]).toContain('said by delta_tool')
  expect(results[1]).toContain('said by gamma_tool')
  expect(existsSync(join(life.workspace, 'hooked'))).toBe(true)
  expect(JSON.stringify(await life.events())).not.toContain('tok3n-of-the-plugin')
  await life.sendAndWait('once more')
  expect(await life.eventsOfKind('SystemPromptEvent')).toHaveLength(2)
})

test('a loaded plugin survives closing, also before the model has seen it', async () => {
  const directory = await plugin('epsilon')
  const extensions = directories()
  const life = await fixtures.create({ agent, deps: { extensions } })
  await life.sendAndWait('hello')
  await life.conversation.loadPlugin(source(directory))
  await life.reopen()
  await life.sendAndWait('weather')
  expect(await promptOf(life)).toContain('epsilon-skill')
  expect(await life.eventsOfKind('SystemPromptEvent')).toHaveLength(2)
  const tools = (await life.eventsOfKind('SystemPromptEvent')).at(-1)?.tools
  expect(JSON.stringify(tools)).toContain('epsilon_tool')
  await life.reopen()
  await life.sendAndWait('again')
  expect(await life.eventsOfKind('SystemPromptEvent')).toHaveLength(2)
})

test('a prompt that is written again says of the workspace what the first one said, also after a restart', async () => {
  const life = await fixtures.create({ agent, deps: { extensions: directories() } })
  await writeFile(join(life.workspace, 'go.mod'), 'module x')
  await life.sendAndWait('hello')
  const told = /<workspace_at_start>.*<\/workspace_at_start>/s
  const [first] = told.exec(await promptOf(life)) ?? []
  expect(first).toContain('- Commands: go test ./..., go build ./...')
  await writeFile(join(life.workspace, 'Cargo.toml'), '')
  await life.reopen()
  await life.conversation.loadPlugin(source(await plugin('omega')))
  await life.sendAndWait('weather')
  expect(await life.eventsOfKind('SystemPromptEvent')).toHaveLength(2)
  expect(await promptOf(life)).toContain('omega-skill')
  expect(told.exec(await promptOf(life))?.[0]).toBe(first)
})

test('a plugin replaces an earlier one of the same name', async () => {
  const [one, two] = [
    await plugin('zeta'),
    await plugin('zeta', {
      'skills/zeta-skill/SKILL.md': '---\nname: zeta-skill\ndescription: Newer.\n---\nNew.\n',
    }),
  ]
  const life = await fixtures.create({
    agent,
    deps: { extensions: directories() },
    request: { plugins: [source(one)] },
  })
  await life.sendAndWait('hello')
  await life.conversation.loadPlugin(source(two))
  await life.sendAndWait('hello')
  expect(await promptOf(life)).toContain('zeta-skill: Newer.')
  expect(life.settings.plugins).toMatchObject([{ source: two }])
})

test('while it runs no plugin is loaded, and a plugin that is none changes nothing', async () => {
  const directory = await plugin('eta')
  let loading: Promise<unknown> | undefined
  const player = new FakeModel([
    {
      text: 'Done.',
      before: async () => {
        loading = life.conversation.loadPlugin(source(directory)).then(
          () => 'loaded',
          (error: unknown) => error,
        )
        await loading
      },
    },
  ])
  const life = await fixtures.create({ model: player.open, agent, deps: { extensions: directories() } })
  await life.sendAndWait('go')
  expect(await loading).toMatchObject({ code: 'conflict' })
  const before = (await life.events()).length
  await expect(life.conversation.loadPlugin(source('/nothing/here'))).rejects.toMatchObject({
    code: 'bad_request',
  })
  expect((await life.events()).length).toBe(before)
  expect(life.settings.plugins).toBeUndefined()
})

test('a run that began while a plugin was fetched continues without it', async () => {
  const directory = await plugin('lambda')
  const [fetching, fetched, thinking] = [createLatch(), createLatch(), createLatch()]
  const slow = directories()
  const extensions: ExtensionProvider = {
    ...slow,
    async loadPlugin(source, signal) {
      fetching.open()
      await fetched.opened
      return await slow.loadPlugin(source, signal)
    },
  }
  const player = new FakeModel([{ text: 'Done.', before: async () => await thinking.opened }])
  const life = await fixtures.create({ model: player.open, agent, deps: { extensions } })
  const loading = life.conversation.loadPlugin(source(directory)).catch((error: unknown) => error)
  await fetching.opened
  await life.send('go', { run: true })
  fetched.open()
  expect(await loading).toMatchObject({ code: 'conflict' })
  thinking.open()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
  expect(life.settings.plugins).toBeUndefined()
  expect(await promptOf(life)).not.toContain('lambda-skill')
})

test('concurrent changes of plugins and secrets are all stored', async () => {
  const names = ['one', 'two', 'three']
  const paths = await Promise.all(names.map((name) => plugin(name, { '.mcp.json': {} })))
  const life = await fixtures.create({ agent, deps: { extensions: directories() } })
  await Promise.all([
    ...paths.map((path) => life.conversation.loadPlugin(source(path))),
    life.conversation.addSecrets({
      A: { kind: 'StaticSecret', value: 'a'.repeat(9), description: undefined },
    }),
    life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: undefined }),
    life.conversation.addSecrets({
      B: { kind: 'StaticSecret', value: 'b'.repeat(9), description: undefined },
    }),
  ])
  expect(life.settings.plugins?.map((one) => one.source).sort()).toEqual([...paths].sort())
  expect(Object.keys(life.settings.secrets ?? {})).toEqual(['A', 'B'])
  expect(life.settings.confirmation_policy).toMatchObject({ kind: 'AlwaysConfirm' })
  await life.sendAndWait('/one-go')
  const [message] = await life.eventsOfKind('MessageEvent')
  expect(message?.activated_skills).toEqual(['one:one-go'])
})

test('installed extensions are loaded without a request, and can be disabled by name', async () => {
  const directory = await plugin('theta', { '.mcp.json': {} })
  const installed = await readPlugin(directory, new AbortController().signal)
  if ('issue' in installed) throw new Error(installed.issue)
  const [own] = installed.skills
  if (own === undefined) throw new Error('no skill')
  const skill = { ...own, name: 'of-the-server', description: 'Installed.', origin: 'installed' as const }
  const extensions = directories({ plugins: [installed], installed: [skill], issues: ['something is bad'] })
  const life = await fixtures.create({ agent, deps: { extensions } })
  await life.sendAndWait('hello')
  expect(await promptOf(life)).toMatch(/of-the-server: Installed\.[\s\S]*theta-skill/)
  expect(life.logLines.join()).toContain('something is bad')
  expect(life.settings.plugins).toBeUndefined()
  const context = { disabled_skills: ['of-the-server'] }
  const other = await fixtures.create({ agent: { ...agent, agent_context: context }, deps: { extensions } })
  await other.sendAndWait('hello')
  expect(await promptOf(other)).not.toContain('of-the-server')
  await mkdir(join(other.workspace, '.agents/skills/theta-skill'), { recursive: true })
  await writeFile(
    join(other.workspace, '.agents/skills/theta-skill/SKILL.md'),
    '---\nname: theta-skill\ndescription: Of the project.\n---\nx\n',
  )
  const third = await fixtures.create({
    agent: { ...agent, agent_context: { load_project_skills: true } },
    deps: { extensions },
    request: { workspace: { working_dir: other.workspace } },
  })
  await third.sendAndWait('hello')
  expect(await promptOf(third)).toContain('theta-skill: Of the project.')
})

test('a run continues without the server of an installed plugin that does not start', async () => {
  const directory = await plugin('mu', { '.mcp.json': { mu: { command: '/nothing/here' } } })
  const installed = await readPlugin(directory, new AbortController().signal)
  if ('issue' in installed) throw new Error(installed.issue)
  const life = await fixtures.create({ agent, deps: { extensions: directories({ plugins: [installed] }) } })
  await life.sendAndWait('hello')
  expect(life.status).toBe('finished')
  expect(await promptOf(life)).toContain('mu-skill')
  expect(life.logLines.join()).toContain('tools of an MCP server were left out')
})

test('a plugin whose required server does not start fails the run, and the ones that were connected stay', async () => {
  const good = await plugin('iota')
  const bad = await plugin('kappa', {
    '.mcp.json': { kappa: { command: '/nothing/here', required: true } },
  })
  const life = await fixtures.create({
    agent,
    deps: { extensions: directories() },
    request: { plugins: [source(good)] },
  })
  await life.sendAndWait('hello')
  await life.conversation.loadPlugin(source(bad))
  await life.sendAndWait('go')
  await waitUntil(() => life.status === 'error')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toMatchObject([{ code: 'MCPError' }])
  await life.conversation.loadPlugin(source(await plugin('kappa')))
  await life.sendAndWait('go')
  expect(life.status).toBe('finished')
  expect(await promptOf(life)).toContain('kappa-skill')
})
