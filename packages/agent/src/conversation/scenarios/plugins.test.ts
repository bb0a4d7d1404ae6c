import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ExtensionSource } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CommonExtensions, type Extensions, PluginFailure } from '../../plugins/extensions.ts'
import { readPlugin } from '../../plugins/plugin.ts'
import { gate, type Life, Player, Temporary, textOf, until } from '../testing/fixtures.ts'

let place: Temporary

beforeAll(async () => {
  place = await Temporary.open()
})
afterAll(() => place[Symbol.asyncDispose]())

const none: CommonExtensions = { plugins: [], installed: [], others: [], hasPublic: false, faults: [] }

/** Plugins of directories, found by their paths; `pinned` names a copy, as a fetched one. */
function directories(common: Partial<CommonExtensions> = {}): Extensions & { readonly asked: string[] } {
  const asked: string[] = []
  return {
    asked,
    common: async () => ({ ...none, ...common }),
    async plugin({ source }, signal) {
      asked.push(source)
      const plugin = await readPlugin(source, signal)
      if ('fault' in plugin) throw new PluginFailure(`The plugin ${plugin.fault}`)
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
  const directory = join(place.directory, 'plugins', `${name}-${crypto.randomUUID()}`)
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

async function promptOf(life: Life): Promise<string> {
  const prompts = await life.all('SystemPromptEvent')
  return prompts.at(-1)?.dynamic_context?.text ?? ''
}

test('what a plugin of the request brings is there from the first step: skills, commands, hooks, servers', async () => {
  const directory = await plugin('alpha')
  const player = new Player([
    {
      calls: [
        ['terminal', { command: 'true' }],
        ['alpha_tool', {}],
        ['file_editor', { command: 'view', path: join(directory, 'note.txt') }],
      ],
    },
  ])
  const extensions = directories()
  const life = await place.begin({
    model: player.open,
    agent,
    rim: { extensions },
    request: { plugins: [source(directory)] },
  })
  await life.say('What is the weather? /alpha-go')
  expect(await promptOf(life)).toContain('alpha-skill: Skill of alpha.')
  expect(await promptOf(life)).not.toContain('alpha:alpha-go')
  const [message] = await life.all('MessageEvent')
  expect(message?.activated_skills).toEqual(['alpha-skill', 'alpha:alpha-go'])
  expect(textOf(message?.extended_content)).toContain(`Read ${directory}/note.txt.`)
  expect(textOf(message?.extended_content)).toContain('Go there.')
  expect(await readFile(join(life.workspace, 'hooked'), 'utf8')).toBe('The note.')
  const results = (await life.all('ObservationEvent')).map(({ observation }) => textOf(observation.content))
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
  const life = await place.begin({ agent, rim: { extensions }, request: { plugins: [source(directory)] } })
  await life.say('weather')
  expect(await life.all('MessageEvent')).toHaveLength(1)
  expect(await life.all('ConversationErrorEvent')).toMatchObject([
    { code: 'PluginError', detail: 'The plugin is not there' },
  ])
  expect(life.status).toBe('error')
  expect(await life.all('SystemPromptEvent')).toEqual([])
  expect(await life.conversation.ask('And?', new AbortController().signal)).toBe('Aside.')
  await cp(away, directory, { recursive: true })
  await life.say('weather again')
  expect(life.status).toBe('finished')
  expect(await promptOf(life)).toContain('beta-skill')
  expect((await life.all('MessageEvent'))[1]?.activated_skills).toEqual(['beta-skill'])
})

test('without a port for plugins a conversation that asks for one fails, and no other', async () => {
  const life = await place.begin({ agent, request: { plugins: [source('/x')] } })
  await life.say('go')
  expect(await life.all('ConversationErrorEvent')).toMatchObject([{ code: 'PluginError' }])
  const other = await place.begin({ agent, request: { plugins: [] } })
  await other.say('go')
  expect(other.status).toBe('finished')
})

test('a plugin that comes later is a fact without secrets, and there with the next step', async () => {
  const first = await plugin('gamma')
  const second = await plugin('delta')
  const player = new Player([
    { text: 'One.' },
    {
      calls: [
        ['delta_tool', {}],
        ['gamma_tool', {}],
        ['terminal', { command: 'true' }],
      ],
    },
  ])
  const life = await place.begin({
    model: player.open,
    agent,
    rim: { extensions: directories() },
    request: { plugins: [source(first)] },
  })
  await life.say('hello')
  await life.conversation.loadPlugin(source(second))
  const fact = (await life.all('ConversationStateUpdateEvent')).find(({ key }) => key === 'agent')
  expect(fact?.value).toMatchObject({
    kind: 'Agent',
    mcp_config: { gamma: { env: { API_TOKEN: '**********' } }, delta: { env: { API_TOKEN: '**********' } } },
  })
  expect(JSON.stringify(fact)).toContain('delta-skill')
  expect(life.settings.plugins).toMatchObject([{ source: first }, { source: second, is_untold: true }])
  await life.say('weather')
  expect(await life.all('SystemPromptEvent')).toHaveLength(2)
  expect(await promptOf(life)).toMatch(/delta-skill/)
  expect(await promptOf(life)).toMatch(/gamma-skill/)
  expect(life.settings.plugins?.[1]).not.toHaveProperty('is_untold')
  const results = (await life.all('ObservationEvent')).map(({ observation }) => textOf(observation.content))
  expect(results[0]).toContain('said by delta_tool')
  expect(results[1]).toContain('said by gamma_tool')
  expect(existsSync(join(life.workspace, 'hooked'))).toBe(true)
  expect(JSON.stringify(await life.events())).not.toContain('tok3n-of-the-plugin')
  await life.say('once more')
  expect(await life.all('SystemPromptEvent')).toHaveLength(2)
})

test('a plugin that was loaded is there after the conversation was closed, also when nobody had been told', async () => {
  const directory = await plugin('epsilon')
  const extensions = directories()
  const life = await place.begin({ agent, rim: { extensions } })
  await life.say('hello')
  await life.conversation.loadPlugin(source(directory))
  await life.reopen()
  await life.say('weather')
  expect(await promptOf(life)).toContain('epsilon-skill')
  expect(await life.all('SystemPromptEvent')).toHaveLength(2)
  const tools = (await life.all('SystemPromptEvent')).at(-1)?.tools
  expect(JSON.stringify(tools)).toContain('epsilon_tool')
  await life.reopen()
  await life.say('again')
  expect(await life.all('SystemPromptEvent')).toHaveLength(2)
})

test('a plugin of the same name takes the place of the one before', async () => {
  const [one, two] = [
    await plugin('zeta'),
    await plugin('zeta', {
      'skills/zeta-skill/SKILL.md': '---\nname: zeta-skill\ndescription: Newer.\n---\nNew.\n',
    }),
  ]
  const life = await place.begin({
    agent,
    rim: { extensions: directories() },
    request: { plugins: [source(one)] },
  })
  await life.say('hello')
  await life.conversation.loadPlugin(source(two))
  await life.say('hello')
  expect(await promptOf(life)).toContain('zeta-skill: Newer.')
  expect(life.settings.plugins).toMatchObject([{ source: two }])
})

test('while it runs no plugin is loaded, and a plugin that is none changes nothing', async () => {
  const directory = await plugin('eta')
  let loading: Promise<unknown> | undefined
  const player = new Player([
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
  const life = await place.begin({ model: player.open, agent, rim: { extensions: directories() } })
  await life.say('go')
  expect(await loading).toMatchObject({ code: 'conflict' })
  const before = (await life.events()).length
  await expect(life.conversation.loadPlugin(source('/nothing/here'))).rejects.toMatchObject({
    code: 'bad_request',
  })
  expect((await life.events()).length).toBe(before)
  expect(life.settings.plugins).toBeUndefined()
})

test('a run that began while a plugin was fetched goes on without it', async () => {
  const directory = await plugin('lambda')
  const [fetching, fetched, thinking] = [gate(), gate(), gate()]
  const slow = directories()
  const extensions: Extensions = {
    ...slow,
    async plugin(source, signal) {
      fetching.open()
      await fetched.opened
      return await slow.plugin(source, signal)
    },
  }
  const player = new Player([{ text: 'Done.', before: async () => await thinking.opened }])
  const life = await place.begin({ model: player.open, agent, rim: { extensions } })
  const loading = life.conversation.loadPlugin(source(directory)).catch((error: unknown) => error)
  await fetching.opened
  await life.send('go', { run: true })
  fetched.open()
  expect(await loading).toMatchObject({ code: 'conflict' })
  thinking.open()
  await life.conversation.settled()
  expect(life.status).toBe('finished')
  expect(life.settings.plugins).toBeUndefined()
  expect(await promptOf(life)).not.toContain('lambda-skill')
})

test('plugins and secrets that are given at once are all kept', async () => {
  const names = ['one', 'two', 'three']
  const paths = await Promise.all(names.map((name) => plugin(name, { '.mcp.json': {} })))
  const life = await place.begin({ agent, rim: { extensions: directories() } })
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
  await life.say('/one-go')
  const [message] = await life.all('MessageEvent')
  expect(message?.activated_skills).toEqual(['one:one-go'])
})

test('what is installed on the server is there without being asked for, and can be disabled by name', async () => {
  const directory = await plugin('theta', { '.mcp.json': {} })
  const installed = await readPlugin(directory, new AbortController().signal)
  if ('fault' in installed) throw new Error(installed.fault)
  const [own] = installed.skills
  if (own === undefined) throw new Error('no skill')
  const skill = { ...own, name: 'of-the-server', description: 'Installed.', origin: 'installed' as const }
  const extensions = directories({ plugins: [installed], installed: [skill], faults: ['something is bad'] })
  const life = await place.begin({ agent, rim: { extensions } })
  await life.say('hello')
  expect(await promptOf(life)).toMatch(/of-the-server: Installed\.[\s\S]*theta-skill/)
  expect(life.lines.join()).toContain('something is bad')
  expect(life.settings.plugins).toBeUndefined()
  const context = { disabled_skills: ['of-the-server'] }
  const other = await place.begin({ agent: { ...agent, agent_context: context }, rim: { extensions } })
  await other.say('hello')
  expect(await promptOf(other)).not.toContain('of-the-server')
  await mkdir(join(other.workspace, '.agents/skills/theta-skill'), { recursive: true })
  await writeFile(
    join(other.workspace, '.agents/skills/theta-skill/SKILL.md'),
    '---\nname: theta-skill\ndescription: Of the project.\n---\nx\n',
  )
  const third = await place.begin({
    agent: { ...agent, agent_context: { load_project_skills: true } },
    rim: { extensions },
    request: { workspace: { working_dir: other.workspace } },
  })
  await third.say('hello')
  expect(await promptOf(third)).toContain('theta-skill: Of the project.')
})

test('an installed plugin whose server does not start keeps nobody from running', async () => {
  const directory = await plugin('mu', { '.mcp.json': { mu: { command: '/nothing/here' } } })
  const installed = await readPlugin(directory, new AbortController().signal)
  if ('fault' in installed) throw new Error(installed.fault)
  const life = await place.begin({ agent, rim: { extensions: directories({ plugins: [installed] }) } })
  await life.say('hello')
  expect(life.status).toBe('finished')
  expect(await promptOf(life)).toContain('mu-skill')
  expect(life.lines.join()).toContain('tools of an MCP server were left out')
})

test('a plugin whose server does not start fails the run, and the ones that were connected stay', async () => {
  const good = await plugin('iota')
  const bad = await plugin('kappa', { '.mcp.json': { kappa: { command: '/nothing/here' } } })
  const life = await place.begin({
    agent,
    rim: { extensions: directories() },
    request: { plugins: [source(good)] },
  })
  await life.say('hello')
  await life.conversation.loadPlugin(source(bad))
  await life.say('go')
  await until(() => life.status === 'error')
  expect(await life.all('ConversationErrorEvent')).toMatchObject([{ code: 'MCPError' }])
  await life.conversation.loadPlugin(source(await plugin('kappa')))
  await life.say('go')
  expect(life.status).toBe('finished')
  expect(await promptOf(life)).toContain('kappa-skill')
})
