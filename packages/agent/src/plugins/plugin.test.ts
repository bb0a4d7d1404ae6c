import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { hookConfig, must } from '@slipway/protocol'
import fc from 'fast-check'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { ConversationExtensions, type ExtensionProvider, mergeHooks, mergeServers } from './extensions.ts'
import { readMarketplace } from './marketplace.ts'
import { type Plugin, readPlugin } from './plugin.ts'

const neverAborted = new AbortController().signal
const variable = (name: string) => `$\{${name}}`
const rootVariable = variable('CLAUDE_PLUGIN_ROOT')
const token = variable('WEATHER_TOKEN')
let root = ''

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "slipway-plu'gin-")))
  onTestFinished(async () => await rm(root, { recursive: true, force: true }))
})

async function writeFixture(path: string, content: unknown): Promise<void> {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  await mkdir(dirname(join(root, path)), { recursive: true })
  await writeFile(join(root, path), text)
}

async function read(directory = root): Promise<Plugin> {
  const plugin = await readPlugin(directory, neverAborted)
  if ('issue' in plugin) throw new Error(plugin.issue)
  return plugin
}

const skill = (name: string) => `---\nname: ${name}\ndescription: About ${name}.\n---\nDo ${name}.\n`

test('a plugin is its manifest, skills, commands, hooks and MCP servers', async () => {
  await writeFixture('.claude-plugin/plugin.json', {
    name: 'city-weather',
    version: '2.1.0',
    description: 'Tells\nthe weather',
    author: { name: 'x' },
  })
  await writeFixture('skills/ask/SKILL.md', `${skill('ask')}See ${rootVariable}/data.`)
  await writeFixture(
    'commands/now.md',
    '---\ndescription: The weather now\nargument-hint: "[city]"\n---\nTell it for $ARGUMENTS.',
  )
  await writeFixture('hooks/hooks.json', {
    description: 'd',
    hooks: {
      PreToolUse: [
        {
          matcher: 'terminal',
          hooks: [{ type: 'command', command: `"${rootVariable}/check.sh"`, timeout: 5 }],
        },
      ],
    },
  })
  await writeFixture('.mcp.json', {
    mcpServers: {
      weather: {
        command: `${rootVariable}/serve`,
        args: ['--root', rootVariable],
        env: { TOKEN: token },
      },
      remote: { type: 'http', url: 'https://weather.test/mcp' },
    },
  })
  const plugin = await read()
  expect(plugin).toMatchObject({
    name: 'city-weather',
    version: '2.1.0',
    description: 'Tells the weather',
    directory: root,
    issues: [],
  })
  expect(plugin.files).toEqual([
    '.claude-plugin/plugin.json',
    '.mcp.json',
    'commands/now.md',
    'hooks/hooks.json',
    'skills/ask/SKILL.md',
  ])
  const [ask, now] = plugin.skills
  expect(ask).toMatchObject({
    name: 'ask',
    origin: 'plugin',
    isAgentSkill: true,
    content: `Do ask.\nSee ${root}/data.`,
  })
  expect(now).toMatchObject({
    name: 'city-weather:now',
    commands: ['/now'],
    description: 'The weather now',
    isModelInvocable: false,
    inputs: [{ name: 'arguments', description: '[city]' }],
  })
  expect(plugin.servers).toMatchObject({
    weather: { command: `${root}/serve`, args: ['--root', root], env: { TOKEN: token } },
    remote: { url: 'https://weather.test/mcp', transport: 'http' },
  })
  expect(plugin.hooks?.pre_tool_use[0]).toMatchObject({ matcher: 'terminal', hooks: [{ timeout: 5 }] })
})

test('a hook finds the folder of its plugin in its environment, whatever the folder is called', async () => {
  await writeFixture('plugin.json', { name: 'p' })
  await writeFixture('hooks/hooks.json', { Stop: [{ hooks: [{ command: `cat "${rootVariable}/said"` }] }] })
  await writeFixture('said', 'found')
  const command = (await read()).hooks?.stop[0]?.hooks[0]?.command ?? ''
  expect(execFileSync('/bin/sh', ['-c', command]).toString()).toBe('found')
})

test.each(['.claude-plugin/plugin.json', '.plugin/plugin.json', 'plugin.json'])(
  'the manifest may be %s',
  async (place) => {
    await writeFixture(place, { name: 'p' })
    expect(await read()).toMatchObject({
      name: 'p',
      version: '1.0.0',
      description: '',
      skills: [],
      hooks: undefined,
      servers: {},
    })
  },
)

test.each([
  [undefined, /no plugin\.json/],
  ['{', /not JSON/],
  ['[]', /manifest/],
  ['{}', /name/],
  ['{"name": 5}', /name/],
  ['{"name": "Bad Name"}', /name/],
  ['{"name": "../x"}', /name/],
  [`${'['.repeat(1000)}`, /nests too deep/],
  [' '.repeat(1024 * 1024 + 1), /larger/],
])('a folder with the manifest %.20j is not a plugin', async (text, issue) => {
  if (text !== undefined) await writeFixture('plugin.json', text)
  expect(await readPlugin(root, neverAborted)).toEqual({ issue: expect.stringMatching(issue) })
  expect(await readPlugin(join(root, 'nothing'), neverAborted)).toEqual({ issue: 'is missing' })
})

test('an invalid part is skipped with an issue; the others are loaded', async () => {
  await writeFixture('plugin.json', { name: 'p', commands: ['more', '../out', 5] })
  await writeFixture('hooks/hooks.json', {
    Stop: [{ hooks: [{ command: 'x' }] }],
    Notification: [{ hooks: [] }],
  })
  await writeFixture('.mcp.json', {
    good: { command: 'x' },
    bad: { command: 'x', url: 'y' },
    __proto__: { command: 'x' },
  })
  await writeFixture('skills/bad/SKILL.md', '---\nname: [\n---\n')
  await writeFixture('skills/good/SKILL.md', skill('good'))
  await writeFixture('commands/ü x.md', 'x')
  await writeFixture('more/extra.md', 'Extra.')
  const plugin = await read()
  expect(plugin.skills.map(({ name }) => name)).toEqual(['good', 'p:extra'])
  expect(Object.keys(plugin.servers)).toEqual(['good'])
  expect(plugin.hooks?.stop).toHaveLength(1)
  const issues = plugin.issues.join('\n')
  for (const part of ['Notification', 'MCP server bad', 'skills/bad', 'commands/ü x.md', 'not in it'])
    expect(issues).toContain(part)
})

test('nothing outside of the folder is read', async () => {
  await writeFixture('secret/SKILL.md', skill('secret'))
  await writeFixture('secret/hooks.json', { Stop: [{ hooks: [{ command: 'x' }] }] })
  await writeFixture('secret/plugin.json', { name: 'stolen' })
  await writeFixture('p/plugin.json', {
    name: 'p',
    hooks: '../secret/hooks.json',
    mcpServers: '../../../../etc/passwd',
    skills: ['../secret'],
  })
  await mkdir(join(root, 'p/skills'))
  await symlink('../../secret', join(root, 'p/skills/link'))
  await symlink('../secret', join(root, 'p/commands'))
  const plugin = await read(join(root, 'p'))
  expect(plugin).toMatchObject({ skills: [], hooks: undefined, servers: {} })
  await mkdir(join(root, 'q'))
  await symlink('../secret/plugin.json', join(root, 'q/plugin.json'))
  expect(await readPlugin(join(root, 'q'), neverAborted)).toEqual({
    issue: expect.stringMatching(/leads out/),
  })
})

const createPlugin = (name: string, more: Partial<Plugin> = {}): Plugin => ({
  name,
  version: '1',
  description: '',
  directory: `/${name}`,
  skills: [],
  hooks: undefined,
  servers: {},
  files: [],
  issues: [],
  ...more,
})
const noExtensions = { plugins: [], installed: [], others: [], hasPublic: false, issues: [] }

test('a plugin of the conversation overrides one of the server, and a later one an earlier one of its name', async () => {
  const [old, young] = [createPlugin('a', { version: '1' }), createPlugin('a', { version: '2' })]
  const server = createPlugin('a', { version: '3' })
  const own = new Map([old, createPlugin('b'), young].map((plugin, at) => [String(at), plugin]))
  const sources = [...own.keys()].map((source) => ({ source, ref: undefined, repo_path: undefined }))
  const provider: ExtensionProvider = {
    loadCommon: async () => ({ ...noExtensions, plugins: [server, createPlugin('c')] }),
    loadPlugin: async (pinned) => ({ plugin: must(own.get(pinned.source), 'a plugin'), pinned }),
  }
  const extensions = await ConversationExtensions.open(
    { provider, sources, context: undefined },
    neverAborted,
  )
  expect(extensions.plugins.map(({ name, version }) => name + version)).toEqual(['b1', 'a2', 'c1'])
  expect(extensions.skills).toMatchObject({ plugins: [], installed: [] })
})

test('hooks and servers of the conversation come before those of plugins', () => {
  const hooks = (command: string) => hookConfig.parse({ stop: [{ hooks: [{ command }] }] })
  const plugins = [
    createPlugin('a', {
      hooks: hooks('a'),
      servers: { x: { command: 'a' } as never, y: { command: 'a' } as never },
    }),
    createPlugin('b', { hooks: hooks('b'), servers: { y: { command: 'b' } as never } }),
  ]
  const merged = mergeHooks(hooks('own'), plugins)
  expect(merged?.stop.map((matcher) => matcher.hooks[0]?.command)).toEqual(['own', 'a', 'b'])
  expect(mergeHooks(undefined, [])).toBeUndefined()
  expect(mergeServers({ x: { command: 'own' } as never }, plugins)).toMatchObject({
    x: { command: 'own' },
    y: { command: 'a' },
  })
})

test('a marketplace offers plugins and skills, in its own tree and elsewhere', async () => {
  await writeFixture('.claude-plugin/marketplace.json', {
    name: 'm',
    metadata: { pluginRoot: './plugins' },
    plugins: [
      { name: 'one', source: './plugins/one', description: 'First' },
      { name: 'two', source: 'two' },
      { name: 'skill', source: './skills/skill' },
      { name: 'far', source: { source: 'github', repo: 'o/r', ref: 'v1', path: 'p' } },
      { name: 'url', source: 'https://git.test/x.git' },
      { name: 'out', source: '../outside' },
      { name: 'missing', source: './nothing' },
      { source: './plugins/one' },
      'nonsense',
      { name: 'one', source: './plugins/two' },
    ],
    skills: [{ name: 'other', source: './skills/other' }],
  })
  for (const name of ['one', 'two']) await writeFixture(`plugins/${name}/plugin.json`, { name })
  for (const name of ['skill', 'other']) await writeFixture(`skills/${name}/SKILL.md`, skill(name))
  const found = await readMarketplace(root)
  if ('issue' in found) throw new Error(found.issue)
  expect(found.offers).toEqual([
    { name: 'one', description: 'First', isPlugin: true, folder: 'plugins/one', source: undefined },
    { name: 'two', description: undefined, isPlugin: true, folder: 'plugins/two', source: undefined },
    { name: 'skill', description: undefined, isPlugin: false, folder: 'skills/skill', source: undefined },
    {
      name: 'far',
      description: undefined,
      isPlugin: true,
      folder: undefined,
      source: { source: 'github:o/r', ref: 'v1', repo_path: 'p' },
    },
    {
      name: 'url',
      description: undefined,
      isPlugin: true,
      folder: undefined,
      source: { source: 'https://git.test/x.git', ref: undefined, repo_path: undefined },
    },
    { name: 'other', description: undefined, isPlugin: false, folder: 'skills/other', source: undefined },
  ])
  expect(found.issues).toHaveLength(4)
  expect(await readMarketplace(root, 'other.json')).toEqual({ issue: 'has no other.json' })
  expect(await readMarketplace(root, '../../../etc/passwd')).toHaveProperty('issue')
  expect(await readMarketplace(join(root, 'plugins'))).toEqual({ issue: 'has no marketplace.json' })
})

test('no manifest, hooks, servers or marketplace make reading throw', async () => {
  const value = fc.jsonValue({ maxDepth: 4 })
  const near = fc.record(
    {
      name: fc.constant('p'),
      skills: value,
      commands: value,
      hooks: value,
      mcpServers: value,
      plugins: value,
      metadata: value,
    },
    { requiredKeys: ['name'] },
  )
  await fc.assert(
    fc.asyncProperty(fc.oneof(value, near), value, value, async (manifest, hooks, servers) => {
      await writeFixture('plugin.json', JSON.stringify(manifest))
      await writeFixture('marketplace.json', JSON.stringify(manifest))
      await writeFixture('hooks/hooks.json', JSON.stringify(hooks))
      await writeFixture('.mcp.json', JSON.stringify(servers))
      const plugin = await readPlugin(root, neverAborted)
      if (!('issue' in plugin)) expect(plugin.name).toMatch(/^[a-z0-9-]+$/)
      expect(await readMarketplace(root)).toBeDefined()
    }),
    { numRuns: 100 },
  )
}, 60_000)
