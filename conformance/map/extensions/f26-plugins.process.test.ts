import { access, rm } from 'node:fs/promises'
import { afterAll, afterEach, expect } from 'vitest'
import { expectAnswer, expectUnauthorized } from '../answers.ts'
import { differs, endFamily, externalUrl, mapCase } from '../frame.ts'
import {
  finishReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  openModel,
} from '../map-server.ts'
import { GitSource, openWithGitHub, pluginFiles, skillText } from './git-source.ts'

const plugins = [
  { name: 'map-public', source: './plugins/map-public', description: 'Public.' },
  { name: 'map-alone', source: './skills/map-alone' },
]
const collection = await GitSource.create({
  ...pluginFiles('map-public', 'plugins/map-public'),
  'skills/map-alone/SKILL.md': skillText('map-alone'),
  '.plugin/marketplace.json': JSON.stringify({ name: 'map', owner: { name: 'map' }, plugins }),
})
const source = await GitSource.create(pluginFiles('map-git'))
afterAll(async () => {
  for (const { directory } of [collection, source]) await rm(directory, { recursive: true, force: true })
})
const map = openMapServer({ SLIPWAY_SKILLS_SOURCE: collection.url })
const installed = '/api/plugins/installed'
/** What a case that failed has left. */
afterEach(async () => {
  const { plugins } = await map.requestOrThrow<{ plugins: readonly { name: string }[] }>('GET', installed)
  for (const { name } of plugins)
    if (name.startsWith('map-')) await map.request('DELETE', `${installed}/${name}`)
})
const own = { hasOwnServer: true }
const openOwn = () => OwnMapServer.open({ key: 'map-key-2' })
interface Plugin extends Json {
  readonly name: string
  readonly skills: readonly { readonly name: string }[]
}
const ambient = async (body: object, on: MapClient = map) =>
  (await on.requestOrThrow<{ plugins: Plugin[] }>('POST', '/api/plugins', { body })).plugins
const ambientNames = async (body: object = {}, on: MapClient = map) =>
  (await ambient(body, on)).map(({ name }) => name)
const install = (body: object, status = 200, on: MapClient = map) =>
  expectAnswer<Plugin>(on, status, 'POST', '/api/plugins/install', { body })
const uninstall = (name: string, status = 200) => expectAnswer(map, status, 'DELETE', `${installed}/${name}`)
const get = (name: string, on: MapClient = map) => on.requestOrThrow<Plugin>('GET', `${installed}/${name}`)
const toggle = (name: string, enabled: boolean, on: MapClient = map) =>
  expectAnswer(on, 200, 'PATCH', `${installed}/${name}`, { body: { enabled } })
/** Writes files below a folder; returns it. */
async function write(
  files: Readonly<Record<string, string>>,
  at: string,
  on: MapClient = map,
): Promise<string> {
  for (const [name, text] of Object.entries(files)) await on.upload(`${at}/${name}`, text)
  return at
}
const local = async (name: string, on: MapClient = map) =>
  `${await write(pluginFiles(name), on.directory, on)}/${name}`
const fromGit = { source: source.url, repo_path: 'map-git' }
const skillNames = ({ skills }: Plugin) => skills.map(({ name }) => name)

mapCase('F26.auth', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['POST', '/api/plugins', {}],
    ['POST', '/api/plugins/install', { source: '/nothing' }],
    ['GET', installed],
    ['GET', `${installed}/map`],
    ['PATCH', `${installed}/map`, { enabled: false }],
    ['DELETE', `${installed}/map`],
    ['POST', `${installed}/map/refresh`],
    ['GET', '/api/plugins/marketplace'],
  )
})
mapCase(
  'F26.catalog-project',
  'plugins of a project and of its repository, with skills and commands',
  async () => {
    const project_dir = `${map.directory}/project`
    await write(pluginFiles('map-agents'), `${project_dir}/.agents/plugins`)
    await write(pluginFiles('map-legacy'), `${project_dir}/.openhands/plugins`)
    await map.runCommand(`git init -q '${project_dir}' && mkdir -p '${project_dir}/sub'`)
    const found = await ambient({ load_user: false, project_dir })
    expect(found).toMatchObject([
      {
        name: 'map-agents',
        version: '0.1.0',
        path: `${project_dir}/.agents/plugins/map-agents`,
        files: expect.arrayContaining(['.plugin/plugin.json', 'commands/hello.md']),
      },
      { name: 'map-legacy' },
    ])
    expect(found.flatMap(skillNames)).toEqual(
      expect.arrayContaining(['map-agents-skill', 'map-agents:hello']),
    )
    const names = ['map-agents', 'map-legacy']
    expect(await ambientNames({ load_user: false, project_dir: `${project_dir}/sub` })).toEqual(names)
    expect(await ambientNames({ load_user: false, load_project: false, project_dir })).toEqual([])
    expect(await ambientNames({ load_user: false })).toEqual([])
    await expectAnswer(map, 422, 'POST', '/api/plugins')
  },
)
mapCase(
  'F26.catalog-user-precedence',
  'project before user before installed',
  async () => {
    await using server = await openOwn()
    const user = `${server.home}/.agents/plugins`
    const project_dir = `${server.directory}/project`
    for (const name of ['map-both', 'map-user', 'map-inst']) await write(pluginFiles(name), user, server)
    await write(pluginFiles('map-both'), `${project_dir}/.agents/plugins`, server)
    await install({ source: await local('map-inst', server) }, 200, server)
    const found = await ambient({ project_dir }, server)
    const path = (wanted: string) => found.filter(({ name }) => name === wanted).map((one) => one.path)
    expect(path('map-both')).toEqual([`${project_dir}/.agents/plugins/map-both`])
    expect(path('map-inst')).toEqual([`${user}/map-inst`])
    expect(await ambientNames({ load_user: false }, server)).not.toContain('map-user')
  },
  own,
)
mapCase('F26.install-local', 'a directory is copied, with its skills and files', async () => {
  const path = await local('map-local')
  const made = await install({ source: path })
  expect(made).toMatchObject({ name: 'map-local', version: '0.1.0', enabled: true, source: path })
  expect(skillNames(made)).toEqual(expect.arrayContaining(['map-local-skill', 'map-local:hello']))
  expect(made.files).toEqual(expect.arrayContaining(['.plugin/plugin.json', 'hooks/hooks.json']))
  expect(await ambientNames()).toEqual(['map-local'])
  await uninstall('map-local')
})
mapCase(
  'F26.install-agent-plugins',
  'the layout of a manifest at the root, told by its schema',
  async () => {
    const layout = (name: string, more: object) => ({
      [`${name}/plugin.json`]: JSON.stringify({ name, version: '0.2.0', ...more }),
      [`${name}/skills/${name}-skill/SKILL.md`]: skillText(`${name}-skill`),
      [`${name}/dev.openhands/commands/run.md`]: '---\ndescription: Runs.\n---\nRun.\n',
    })
    const $schema = 'https://agent-plugins.org/schemas/1.0.0/plugin.schema.json'
    const manifest = { 'map-no/plugin.json': '{"name": "map-no", "version": "0.2.0"}' }
    const at = await write(
      { ...layout('map-ap', { $schema }), ...layout('map-other', { name: 'x' }), ...manifest },
      map.directory,
    )
    const made = await install({ source: `${at}/map-ap` })
    expect(skillNames(made)).toEqual(expect.arrayContaining(['map-ap-skill', 'map-ap:run']))
    await uninstall('map-ap')
    await install({ source: `${at}/map-no` }, 422)
    await expectAnswer(map, 404, 'GET', `${installed}/map-no`)
    // With parts of a plugin its folder names it, as without any manifest.
    expect(await install({ source: `${at}/map-other` })).toMatchObject({
      name: 'map-other',
      version: '1.0.0',
    })
    await uninstall('map-other')
  },
  { faultThere: 'a folder without a manifest and without parts is installed' },
)
mapCase('F26.install-git', 'a path of a repository installs with its commit', async () => {
  expect(await install(fromGit)).toMatchObject({
    name: 'map-git',
    repo_path: 'map-git',
    resolved_ref: expect.stringMatching(/^[0-9a-f]{40}$/),
  })
  await uninstall('map-git')
})
mapCase('F26.install-repo-root-name', 'without a manifest the repository names the plugin', async () => {
  const root = `${map.directory}/map-rooted`
  await write({ 'skills/map-bare/SKILL.md': skillText('map-bare') }, root)
  const git = `git -C '${root}' -c user.name=m -c user.email=m@localhost`
  await map.runCommand(`git init -q '${root}' && ${git} add . && ${git} commit -qm first`)
  expect((await install({ source: `file://${root}` })).name).toBe('map-rooted')
  await uninstall('map-rooted')
})
mapCase('F26.install-conflict', 'a second install is 409; with force it stays disabled', async () => {
  const path = await local('map-twice')
  await install({ source: path })
  await toggle('map-twice', false)
  await install({ source: path }, 409)
  await install({ source: path, force: true })
  expect((await get('map-twice')).enabled).toBe(false)
  await uninstall('map-twice')
})
mapCase('F26.install-errors', 'sources that cannot be fetched are 400, no plugins 422', async () => {
  for (const body of [
    { source: `${map.directory}/nothing` },
    { source: 'no such form' },
    { source: source.url, repo_path: '../out' },
    { source: source.url, repo_path: 'nothing' },
  ])
    await install(body, 400)
  for (const [name, text] of [
    ['map-json', '{bad'],
    ['map-name', '{"name":"Bad_Name","version":"1.0.0"}'],
  ] as const) {
    await map.upload(`${map.directory}/${name}/.plugin/plugin.json`, text)
    await install({ source: `${map.directory}/${name}` }, 422)
  }
  await write({ 'skills/map-bare/SKILL.md': skillText('map-bare') }, `${map.directory}/Bad_Folder`)
  await install({ source: `${map.directory}/Bad_Folder` }, 422)
  for (const body of [{}, { source: '' }, { source: 5 }]) await install(body, 422)
  expect(await map.requestOrThrow('GET', installed)).toEqual({ plugins: [] })
})
mapCase(
  'F26.install-github',
  'a plugin from github.com',
  async () => {
    await using server = await openWithGitHub(source)
    const body = { source: 'github:map-owner/map-repo', repo_path: 'map-git' }
    expect(await install(body, 200, server)).toMatchObject({
      ...{ name: 'map-git', source: body.source, repo_path: body.repo_path },
      resolved_ref: expect.stringMatching(/^[0-9a-f]{40}$/),
    })
  },
  own,
)
mapCase(
  'F26.install-documented-source',
  'the documented form of a source installs',
  async () => {
    await using server = await openWithGitHub(source)
    for (const text of [
      'github:map-owner/map-repo/map-git',
      'https://github.com/map-owner/map-repo/tree/main/map-git',
    ])
      expect((await install({ source: text, force: true }, 200, server)).name, text).toBe('map-git')
  },
  own,
)
mapCase('F26.enable-disable', 'a disabled plugin leaves what conversations load', async () => {
  await install({ source: await local('map-toggle') })
  await toggle('map-toggle', false)
  expect(await ambientNames()).toEqual([])
  await toggle('map-toggle', true)
  expect(await ambientNames()).toEqual(['map-toggle'])
  await uninstall('map-toggle')
})
mapCase('F26.name-errors', 'unknown names are 404, names of another form 422', async () => {
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PATCH', '', { enabled: false }],
    ['DELETE', '', undefined],
    ['POST', '/refresh', undefined],
  ] as const) {
    const options = body === undefined ? {} : { body }
    await expectAnswer(map, 404, method, `${installed}/map-none${path}`, options)
    await expectAnswer(map, 422, method, `${installed}/Map_None${path}`, options)
  }
})
mapCase('F26.refresh', 'a refresh installs the newest commit, drops the ref and keeps the flag', async () => {
  const { resolved_ref } = await install(fromGit)
  await uninstall('map-git')
  const newest = await source.commit(pluginFiles('map-git', 'map-git', '0.2.0'))
  await install({ ...fromGit, ref: resolved_ref })
  await toggle('map-git', false)
  await map.requestOrThrow('POST', `${installed}/map-git/refresh`)
  expect(await get('map-git')).toMatchObject({ version: '0.2.0', resolved_ref: newest, enabled: false })
  await uninstall('map-git')
})
differs(
  'F26.self-heal',
  'the list adopts directories and forgets those that are gone',
  'directories that somebody copied among installed ones',
  async () => {
    const { install_path } = await install({ source: await local('map-first') })
    const store = String(install_path).replace(/\/map-first$/, '')
    await map.runCommand(`cp -r '${await local('map-hand')}' '${store}/'`)
    expect(JSON.stringify(await map.requestOrThrow('GET', installed))).not.toContain('map-hand')
    await expectAnswer(map, 404, 'GET', `${installed}/map-hand`)
    await uninstall('map-first')
  },
)
mapCase(
  'F26.refresh-unfetchable',
  'a source that vanished or is damaged is the error of the caller',
  async () => {
    const path = await local('map-vanish')
    await install({ source: path })
    await map.upload(`${path}/.plugin/plugin.json`, '{bad')
    const status = () => map.requestStatus('POST', `${installed}/map-vanish/refresh`)
    expect([400, 422]).toContain(await status())
    await map.runCommand(`rm -rf '${path}'`)
    expect([400, 422]).toContain(await status())
    expect(await get('map-vanish')).toMatchObject({ version: '0.1.0' })
    await uninstall('map-vanish')
  },
)
mapCase('F26.uninstall', 'an uninstalled plugin is gone everywhere', async () => {
  await install({ source: await local('map-gone') })
  await uninstall('map-gone')
  await uninstall('map-gone', 404)
  await expectAnswer(map, 404, 'GET', `${installed}/map-gone`)
  expect(await ambientNames()).toEqual([])
})
/** A conversation that gets one message; returns its events and what it shows of itself. */
async function converse(on: MapClient, text: string) {
  await using model = await openModel(finishReply())
  const { id } = await on.createConversation(model)
  await on.sendMessage(id, text, true)
  await on.waitForStatus(id, 'finished')
  const info = await on.requestOrThrow('GET', `/api/conversations/${id}?include_skills=true`)
  return { events: JSON.stringify(await on.getEvents(id)), info: JSON.stringify(info) }
}
mapCase(
  'F26.conversation-ambient',
  'hooks, commands and skills of an installed plugin are there',
  async () => {
    await install({ source: await local('map-amb') })
    const { events, info } = await converse(map, '/map-amb:hello')
    expect(events).toContain('hook-of-map-amb')
    expect(events).toContain('map-amb:hello')
    expect(info).toContain('map-amb-skill')
    await uninstall('map-amb')
  },
)
mapCase(
  'F26.conversation-disabled',
  'a disabled plugin is not in new conversations',
  async () => {
    await using server = await openOwn()
    await write(pluginFiles('map-user'), `${server.home}/.agents/plugins`, server)
    await install({ source: await local('map-dis', server) }, 200, server)
    await toggle('map-dis', false, server)
    const { events, info } = await converse(server, 'Go.')
    // The workspace has the folder that it was installed from.
    const rest = events.replace(/<workspace_at_start>.*<\/workspace_at_start>/, '')
    expect(rest + info).not.toContain('map-dis')
    expect(events).toContain('hook-of-map-user')
  },
  own,
)
mapCase(
  'F26.conversation-resume-disabled',
  'a plugin disabled since is gone after a restart',
  async () => {
    await using server = await openOwn()
    await using model = await openModel(finishReply())
    await install({ source: await local('map-since', server) }, 200, server)
    const { id } = await server.createConversation(model, { autotitle: false })
    await server.sendMessage(id, '/map-since:hello', true)
    await server.waitForStatus(id, 'finished')
    const before = await server.getEvents(id)
    expect(JSON.stringify(before)).toContain('hook-of-map-since')
    await toggle('map-since', false, server)
    await server.restart()
    await server.sendMessage(id, '/map-since:hello', true)
    await server.waitForStatus(id, 'finished')
    const after = (await server.getEvents(id)).slice(before.length)
    expect(JSON.stringify(after)).not.toContain('hook-of-map-since')
    const message = after.find(({ kind, source }) => kind === 'MessageEvent' && source === 'user')
    expect(message?.activated_skills).toEqual([])
  },
  own,
)
mapCase(
  'F26.restart-persist',
  'installed plugins and their flags survive a restart',
  async () => {
    await using server = await openOwn()
    await install({ source: await local('map-kept', server) }, 200, server)
    await toggle('map-kept', false, server)
    const before = await get('map-kept', server)
    await server.restart()
    expect(await get('map-kept', server)).toEqual(before)
  },
  own,
)
const market = async () =>
  (await map.requestOrThrow<{ plugins: Plugin[] }>('GET', '/api/plugins/marketplace')).plugins
mapCase(
  'F26.marketplace-local',
  'only plugins, with their contents and whether they are installed',
  async () => {
    await map.requestOrThrow('POST', '/api/skills/sync')
    const found = await market()
    expect(found).toMatchObject([{ name: 'map-public', installed: false, ref: null, repo_path: null }])
    expect(JSON.stringify(found[0]?.skills)).toContain('map-public-skill')
    await install({ source: found[0]?.source })
    expect(await market()).toMatchObject([{ installed: true }])
    await uninstall('map-public')
  },
  // The marketplace of another server is on the internet.
  { isUnavailable: externalUrl !== undefined },
)
mapCase(
  'F26.marketplace-cache',
  'entries are kept for five minutes',
  async () => {
    const entries = [...plugins]
    const manifest = () => ({
      '.plugin/marketplace.json': JSON.stringify({ name: 'map', owner: { name: 'map' }, plugins: entries }),
    })
    const repository = await GitSource.create({
      ...pluginFiles('map-public', 'plugins/map-public'),
      ...manifest(),
    })
    const env = { SLIPWAY_SKILLS_SOURCE: repository.url }
    await using server = await OwnMapServer.open({ key: 'map-key-2', env })
    const found = async () => {
      const { plugins } = await server.requestOrThrow<{ plugins: Plugin[] }>(
        'GET',
        '/api/plugins/marketplace',
      )
      return plugins.map(({ name, installed }) => [name, installed])
    }
    expect(await found()).toEqual([['map-public', false]])
    await install({ source: `file://${repository.directory}`, repo_path: 'plugins/map-public' }, 200, server)
    entries.push({ name: 'map-later', source: './plugins/map-later', description: 'Later.' })
    await repository.commit({ ...pluginFiles('map-later', 'plugins/map-later'), ...manifest() })
    expect(await found()).toEqual([['map-public', true]])
    await expectAnswer(server, 200, 'DELETE', `${installed}/map-public`)
    expect(await found()).toEqual([['map-public', false]])
    await server.restart()
    expect(await found()).toEqual([
      ['map-public', false],
      ['map-later', false],
    ])
    await rm(repository.directory, { recursive: true, force: true })
  },
  own,
)
mapCase(
  'F26.ts-client',
  'the published client installs, reads, toggles, refreshes and uninstalls',
  async () => {
    const { PluginsClient } = await import('@openhands/typescript-client/clients')
    const client = new PluginsClient({ host: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) })
    await client.installPlugin(fromGit)
    expect(JSON.stringify(await client.listInstalledPlugins())).toContain('map-git')
    await client.setPluginEnabled('map-git', false)
    await client.refreshPlugin('map-git')
    await client.getPlugins({})
    await client.getPluginsMarketplace()
    await client.uninstallPlugin('map-git')
    await expect(client.getInstalledPlugin('map-git')).rejects.toMatchObject({ status: 404 })
  },
)
mapCase(
  'F26.marketplace-public',
  'entries of the public repository',
  async () => {
    // The repository that the settings name; none is fetched without them.
    const env = { SLIPWAY_SKILLS_SOURCE: collection.url }
    await using server = await OwnMapServer.open({ key: 'map-key-2', env })
    const { plugins: found } = await server.requestOrThrow<{ plugins: Plugin[] }>(
      'GET',
      '/api/plugins/marketplace',
    )
    const expected = plugins.filter(({ source }) => source.startsWith('./plugins/'))
    expect(found.map(({ name }) => name)).toEqual(expected.map(({ name }) => name))
    for (const { name, path, files } of found) {
      expect(path).toMatch(new RegExp(`/plugins/${name}$`))
      expect(files).toContain('.plugin/plugin.json')
      await access(`${path}/.plugin/plugin.json`)
    }
    expect(found[0]?.installed).toBe(false)
  },
  own,
)

endFamily('F26', 25)
