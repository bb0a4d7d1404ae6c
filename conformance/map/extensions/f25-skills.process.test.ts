import { readFile, rm } from 'node:fs/promises'
import { afterAll, afterEach, expect } from 'vitest'
import { expectAnswer, expectUnauthorized } from '../answers.ts'
import { differs, endFamily, externalUrl, mapCase } from '../frame.ts'
import {
  finishReply,
  type Json,
  type ModelReply,
  OwnMapServer,
  openMapServer,
  toolReply,
} from '../map-server.ts'
import { GitSource, openWithGitHub, skillText } from './git-source.ts'

const entry = { name: 'map-public', source: './skills/map-public', description: 'Public.' }
const manifest = (...plugins: object[]) => JSON.stringify({ name: 'map', owner: { name: 'map' }, plugins })
const manifests = (...plugins: object[]) => ({
  '.plugin/marketplace.json': manifest(...plugins),
  'marketplaces/default.json': manifest(...plugins),
})
const collection = await GitSource.create({
  'skills/map-public/SKILL.md': skillText('map-public'),
  ...manifests(entry),
})
const source = await GitSource.create({ 'skills/map-git/SKILL.md': skillText('map-git') })
afterAll(async () => {
  for (const { directory } of [collection, source]) await rm(directory, { recursive: true, force: true })
})
const map = openMapServer({ SLIPWAY_SKILLS_SOURCE: collection.url })
const installed = '/api/skills/installed'
/** What a case that failed has left. */
afterEach(async () => {
  const { skills } = await map.requestOrThrow<{ skills: readonly { name: string }[] }>('GET', installed)
  for (const { name } of skills)
    if (name.startsWith('map-')) await map.request('DELETE', `${installed}/${name}`)
})
const own = { hasOwnServer: true }
const only = { load_public: false, load_user: false, load_project: false, load_org: false }
interface Skill extends Json {
  readonly name: string
}
interface Catalog {
  readonly skills: readonly Skill[]
  readonly sources: Readonly<Record<string, number>>
}
type Server = Pick<typeof map, 'request' | 'requestOrThrow'>
const catalog = (body: object, on: Server = map) =>
  on.requestOrThrow<Catalog>('POST', '/api/skills', { body: { ...only, ...body } })
const userNames = async (on: Server = map) =>
  (await catalog({ load_user: true }, on)).skills.map(({ name }) => name)
const install = (body: object, status = 200, on: Server = map) =>
  expectAnswer(on, status, 'POST', '/api/skills/install', { body })
const uninstall = (name: string, status = 200) => expectAnswer(map, status, 'DELETE', `${installed}/${name}`)
const refresh = (name: string) =>
  map.requestOrThrow<{ message: string; skill: Json }>('POST', `${installed}/${name}/refresh`)
const get = (name: string, on: Server = map) => on.requestOrThrow<Skill>('GET', `${installed}/${name}`)
const toggle = (name: string, enabled: boolean, on: Server = map) =>
  expectAnswer(on, 200, 'PATCH', `${installed}/${name}`, { body: { enabled } })
const local = async (
  name: string,
  text = skillText(name),
  on: Pick<typeof map, 'upload' | 'directory'> = map,
) => {
  await on.upload(`${on.directory}/${name}/SKILL.md`, text)
  return `${on.directory}/${name}`
}
const fromGit = { source: source.url, repo_path: 'skills/map-git' }

mapCase('F25.auth', 'every route needs the key', async () => {
  await expectUnauthorized(
    map,
    ['POST', '/api/skills', {}],
    ['POST', '/api/skills/sync'],
    ['POST', '/api/skills/install', { source: '/nothing' }],
    ['GET', installed],
    ['GET', `${installed}/map`],
    ['PATCH', `${installed}/map`, { enabled: false }],
    ['DELETE', `${installed}/map`],
    ['POST', `${installed}/map/refresh`],
    ['GET', '/api/skills/marketplace'],
  )
})
mapCase(
  'F25.install-github',
  'a skill from github.com',
  async () => {
    await using server = await openWithGitHub(source)
    const body = { source: 'github:map-owner/map-repo', repo_path: 'skills/map-git' }
    expect(await install(body, 200, server)).toMatchObject({
      ...{ name: 'map-git', source: body.source, repo_path: body.repo_path },
      resolved_ref: expect.stringMatching(/^[0-9a-f]{40}$/),
    })
  },
  own,
)
mapCase(
  'F25.install-documented-sources',
  'every documented form of a source installs',
  async () => {
    await using server = await openWithGitHub(source)
    const { description } = await documentedSource(server)
    for (const word of ['absolute directory', 'file', 'github:owner/repo/path'])
      expect(description).toContain(word)
    for (const body of [
      { source: `${source.directory}/skills/map-git` },
      { source: `${source.url}#skills/map-git` },
      { source: 'github:map-owner/map-repo/skills/map-git' },
      { source: 'https://github.com/map-owner/map-repo', repo_path: 'skills/map-git' },
      { source: 'https://github.com/map-owner/map-repo.git#skills/map-git' },
      { source: 'https://github.com/map-owner/map-repo/tree/main/skills/map-git' },
    ])
      expect(await install({ ...body, force: true }, 200, server), body.source).toMatchObject({
        name: 'map-git',
      })
  },
  own,
)
/** What the document says about the source of an installation. */
async function documentedSource(on: OwnMapServer): Promise<{ description: string }> {
  const document = await on.requestOrThrow('GET', '/openapi.json')
  const texts = JSON.stringify(document).match(/"source":\{[^{}]*"description":"[^"]*github:owner[^"]*"/) ?? [
    '',
  ]
  return { description: texts[0] }
}
mapCase(
  'F25.catalog-project',
  'skills of a project in each of their forms, without damaged ones',
  async () => {
    const project_dir = `${map.directory}/project`
    const write = (path: string, text: string) => map.upload(`${project_dir}/${path}`, text)
    await write('.agents/skills/map-one/SKILL.md', skillText('map-one'))
    await write('.agents/skills/map-bad/SKILL.md', skillText('Not_Kebab'))
    await write(
      '.openhands/skills/map-trigger.md',
      '---\nname: map-trigger\ntriggers: [mapword]\n---\nBody.\n',
    )
    await write('AGENTS.md', 'Rules.')
    const { skills, sources } = await catalog({ load_project: true, project_dir })
    const type = (name: string) => skills.find((skill) => skill.name === name)?.type
    expect([type('map-one'), type('map-trigger'), type('agents')]).toEqual([
      'agentskills',
      'knowledge',
      'repo',
    ])
    expect(sources.project).toBe(3)
  },
)
mapCase(
  'F25.catalog-user-precedence',
  'user skills only when asked for; those of a project win',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    const text = (body: string) => skillText('map-both', '', body)
    const project_dir = `${server.directory}/project`
    await server.upload(`${server.home}/.agents/skills/map-both/SKILL.md`, text('Of the user.'))
    await server.upload(`${project_dir}/.agents/skills/map-both/SKILL.md`, text('Of the project.'))
    expect((await catalog({}, server)).skills).toEqual([])
    expect((await catalog({ load_user: true }, server)).skills).toMatchObject([{ name: 'map-both' }])
    const { skills } = await catalog({ load_user: true, load_project: true, project_dir }, server)
    expect(skills.filter(({ name }) => name === 'map-both')).toMatchObject([
      { content: expect.stringContaining('Of the project.') },
    ])
  },
  own,
)
mapCase('F25.catalog-server-sources', 'hosts of a sandbox become one skill', async () => {
  const exposed_urls = [
    { name: 'WORKER_1', url: 'http://worker.example', port: 8011 },
    { name: 'AGENT_SERVER', url: 'http://agent.example', port: 8000 },
  ]
  const { skills } = await catalog({ sandbox_config: { exposed_urls } })
  expect(skills).toMatchObject([{ name: 'work_hosts', type: 'repo' }])
  expect(JSON.stringify(skills)).toContain('http://worker.example (port 8011)')
  expect(JSON.stringify(skills)).not.toContain('agent.example')
})
mapCase('F25.catalog-validation', 'requests that cannot be meant are 422', async () => {
  for (const body of [
    { load_user: 'perhaps' },
    { org_configs: [{ repository: 'x' }] },
    { registered_marketplaces: [{ name: 'x', source: source.url, repo_path: '../out' }] },
  ])
    expect([body, await map.requestStatus('POST', '/api/skills', { body })]).toEqual([body, 422])
})
mapCase('F25.install-local', 'a directory is copied and its skill offered', async () => {
  const path = await local('map-local')
  expect(await install({ source: path })).toMatchObject({
    name: 'map-local',
    enabled: true,
    resolved_ref: null,
  })
  expect(await get('map-local')).toMatchObject({ name: 'map-local', source: path })
  expect(JSON.stringify(await map.requestOrThrow('GET', installed))).toContain('map-local')
  expect(await userNames()).toContain('map-local')
  await uninstall('map-local')
})
mapCase('F25.enable-disable', 'a disabled skill is kept and not offered', async () => {
  await install({ source: await local('map-toggle') })
  await toggle('map-toggle', false)
  expect(await userNames()).not.toContain('map-toggle')
  await toggle('map-toggle', true)
  expect(await userNames()).toContain('map-toggle')
  await expectAnswer(map, 422, 'PATCH', `${installed}/map-toggle`, { body: {} })
  await uninstall('map-toggle')
})
mapCase('F25.install-conflict', 'a second install is 409; with force it stays disabled', async () => {
  const path = await local('map-twice')
  await install({ source: path })
  await toggle('map-twice', false)
  await install({ source: path }, 409)
  await install({ source: path, force: true })
  expect((await get('map-twice')).enabled).toBe(false)
  await uninstall('map-twice')
})
mapCase('F25.install-errors', 'sources that cannot be fetched are 400, no skills 422', async () => {
  const nothing = { source: `${map.directory}/nothing` }
  for (const body of [nothing, { source: 'no such form' }, { source: source.url, repo_path: '../out' }])
    await install(body, 400)
  await map.upload(`${map.directory}/map-plain/README.md`, 'no skill')
  await install({ source: `${map.directory}/map-plain` }, 422)
  await install({ source: await local('map-mismatch', skillText('map-other')) }, 422)
  await install({ source: await local('Map_Bad', '---\ndescription: x\n---\nBody.\n') }, 422)
  for (const body of [{ source: '' }, {}]) await install(body, 422)
  expect(await map.requestOrThrow('GET', installed)).toEqual({ skills: [] })
})
mapCase('F25.install-bad-frontmatter', 'a front matter that is no YAML is 422', async () => {
  const text = '---\nname: map-yaml\ndescription: [open\n---\nBody.\n'
  await install({ source: await local('map-yaml', text) }, 422)
})
mapCase('F25.install-git', 'a path of a repository installs with its commit', async () => {
  expect(await install(fromGit)).toMatchObject({
    name: 'map-git',
    repo_path: 'skills/map-git',
    resolved_ref: expect.stringMatching(/^[0-9a-f]{40}$/),
  })
  await uninstall('map-git')
})
mapCase('F25.sdk-load-skills', 'the merged catalog that the SDK asks for', async () => {
  await install({ source: await local('map-sdk', skillText('map-sdk', 'triggers: [mapword]\n')) })
  const { skills } = await catalog({ load_user: true, load_project: true, project_dir: map.directory })
  expect(skills.find(({ name }) => name === 'map-sdk')).toMatchObject({
    content: expect.stringContaining('Body of map-sdk.'),
    triggers: ['mapword'],
  })
  await uninstall('map-sdk')
})
mapCase('F25.refresh', 'a refresh installs what the source has now and keeps the flag', async () => {
  await install(fromGit)
  await toggle('map-git', false)
  const commit = await source.commit({
    'skills/map-git/SKILL.md': skillText('map-git', '', 'A second body.'),
  })
  const { message, skill } = await refresh('map-git')
  expect(message).toBe("Skill 'map-git' updated")
  expect(skill).toMatchObject({ enabled: false, resolved_ref: commit })
  await uninstall('map-git')
})
mapCase('F25.install-ref', 'a ref pins the commit until a refresh', async () => {
  const first = await source.commit({ 'skills/map-git/SKILL.md': skillText('map-git', '', 'Pinned.') })
  const second = await source.commit({ 'skills/map-git/SKILL.md': skillText('map-git', '', 'Newest.') })
  expect(await install({ ...fromGit, ref: first })).toMatchObject({ resolved_ref: first })
  expect((await refresh('map-git')).skill).toMatchObject({ resolved_ref: second })
  await uninstall('map-git')
})
mapCase('F25.install-unknown-ref', 'an unknown ref is 400, also of a source that is known', async () => {
  const { resolved_ref } = await install(fromGit)
  await install({ ...fromGit, ref: 'no-such-ref', force: true }, 400)
  expect((await get('map-git')).resolved_ref).toBe(resolved_ref)
  await uninstall('map-git')
})
mapCase('F25.refresh-unfetchable', 'a source that vanished is the error of the caller', async () => {
  const path = await local('map-vanish')
  await install({ source: path })
  await map.runCommand(`rm -rf '${path}'`)
  expect([400, 422]).toContain(await map.requestStatus('POST', `${installed}/map-vanish/refresh`))
  await get('map-vanish')
  await uninstall('map-vanish')
})
mapCase('F25.name-errors', 'unknown names are 404, names of another form 422', async () => {
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
differs(
  'F25.self-heal',
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
const publicNames = async () => (await catalog({ load_public: true })).skills.map(({ name }) => name)
const sync = (status: string, on: Server = map) =>
  expectAnswer(on, 200, 'POST', '/api/skills/sync', {}, { status })
/** The collection of another server is on the internet. */
const atOwnCollection = { isUnavailable: externalUrl !== undefined }
mapCase(
  'F25.public-repo',
  'skills of the public repository',
  async () => {
    // The repository that the settings name; none is fetched without them.
    await using server = await OwnMapServer.open({
      key: 'map-key-2',
      env: { SLIPWAY_SKILLS_SOURCE: collection.url },
    })
    await sync('success', server)
    const { skills, sources } = await catalog({ load_public: true }, server)
    expect(sources.sdk_base).toBe(skills.length)
    const source = skills.find(({ name }) => name === 'map-public')?.source
    expect(source).toMatch(/\/skills\/map-public\/SKILL\.md$/)
    expect(await readFile(String(source), 'utf8')).toContain('Body of map-public.')
  },
  own,
)
mapCase(
  'F25.marketplace-public',
  'entries of the public repository',
  async () => {
    const { 'marketplaces/default.json': _, ...onlyPlugin } = manifests(entry)
    const repository = await GitSource.create({
      'skills/map-public/SKILL.md': skillText('map-public'),
      ...onlyPlugin,
    })
    await using server = await OwnMapServer.open({
      key: 'map-key-2',
      env: { SLIPWAY_SKILLS_SOURCE: repository.url },
    })
    await sync('success', server)
    const { skills } = await server.requestOrThrow<Market>('GET', '/api/skills/marketplace')
    expect(skills).toMatchObject([{ name: 'map-public', installed: false }])
    await rm(repository.directory, { recursive: true, force: true })
  },
  own,
)
mapCase(
  'F25.sync',
  'a sync shows new skills of the collection at once',
  async () => {
    await sync('success')
    expect(await publicNames()).toContain('map-public')
    await collection.commit({ 'skills/map-later/SKILL.md': skillText('map-later') })
    await sync('success')
    expect(await publicNames()).toContain('map-later')
  },
  atOwnCollection,
)
mapCase(
  'F25.sync-offline',
  'a collection that cannot be fetched is an error',
  async () => {
    const env = { SLIPWAY_SKILLS_SOURCE: 'file:///nothing/there' }
    await using server = await OwnMapServer.open({ key: 'map-key-2', env })
    await sync('error', server)
  },
  own,
)
mapCase(
  'F25.catalog-registered-marketplace',
  'auto_load says which skills of a marketplace count',
  async () => {
    const names = async (more: object, rest: object = { load_public: true }) => {
      const registered = { name: 'map-market', source: collection.url, ...more }
      const { skills } = await catalog({ ...rest, registered_marketplaces: [registered] })
      return skills.filter(({ name }) => name === 'map-public').length
    }
    expect(await names({ auto_load: true })).toBe(1)
    expect(await names({ auto_load: true }, {})).toBe(0)
  },
)
/** A finished conversation whose agent loads the skills of the user. */
async function converse(text: string, ...replies: readonly ModelReply[]) {
  const model = await map.openModel(...replies, finishReply())
  const { agent, ...request } = map.conversationRequest(model) as { agent: object }
  const { id } = await map.requestOrThrow<{ id: string }>('POST', '/api/conversations', {
    body: { ...request, agent: { ...agent, tools: [], agent_context: { load_user_skills: true } } },
  })
  await map.sendMessage(id, text, true)
  return { info: await map.waitForStatus(id, 'finished'), events: await map.getEvents(id) }
}
mapCase('F25.conversation-activation', 'a trigger word activates an installed skill', async () => {
  await install({ source: await local('map-active', skillText('map-active', 'triggers: [mapword]\n')) })
  const { info, events } = await converse('Use the mapword.')
  expect(info.activated_knowledge_skills).toContain('map-active')
  expect(events.find(({ source }) => source === 'user')?.activated_skills).toContain('map-active')
  await uninstall('map-active')
})
mapCase('F25.invoke-skill', 'a skill without triggers is called by the tool for skills', async () => {
  await install({ source: await local('map-invoke') })
  const { info, events } = await converse('Go.', toolReply('invoke_skill', { name: 'map-invoke' }))
  const results = events.filter(({ kind }) => kind === 'ObservationEvent')
  expect(JSON.stringify(results)).toContain('Body of map-invoke.')
  expect(info.invoked_skills).toEqual(['map-invoke'])
  expect(info.activated_knowledge_skills).toEqual([])
  await uninstall('map-invoke')
})
mapCase(
  'F25.restart-persist',
  'installed skills and their flags survive a restart',
  async () => {
    await using server = await OwnMapServer.open({ key: 'map-key-2' })
    for (const name of ['map-on', 'map-off'])
      await install({ source: await local(name, skillText(name), server) }, 200, server)
    await toggle('map-off', false, server)
    await server.restart()
    expect((await get('map-off', server)).enabled).toBe(false)
    expect(await userNames(server)).toEqual(['map-on'])
  },
  own,
)
mapCase(
  'F25.catalog-server-marketplaces',
  'marketplaces of the server count; a request replaces one of the same name',
  async () => {
    const market = { name: 'map-market', source: collection.url, auto_load: true }
    const env = { SLIPWAY_MARKETPLACES: JSON.stringify([market]) }
    await using server = await OwnMapServer.open({ key: 'map-key-2', env })
    const names = async (body: object) =>
      (await catalog({ load_public: true, ...body }, server)).skills.map(({ name }) => name)
    expect(await names({})).toContain('map-public')
    const registered_marketplaces = [{ ...market, auto_load: false }]
    expect(await names({ registered_marketplaces })).not.toContain('map-public')
  },
  own,
)
interface Market {
  readonly skills: readonly { readonly name: string; readonly source: string; readonly installed: boolean }[]
}
const market = async (name: string) => {
  const { skills } = await map.requestOrThrow<Market>('GET', '/api/skills/marketplace')
  return skills.find((one) => one.name === name)
}
differs(
  'F25.marketplace-catalog',
  'an entry installs by its source and says so at once',
  'the `source` of an entry of a marketplace',
  async () => {
    await sync('success')
    const found = await market('map-public')
    expect(found).toMatchObject({ installed: false, source: expect.stringMatching(/^file:\/\//) })
    await install({ source: found?.source })
    expect((await market('map-public'))?.installed).toBe(true)
    await uninstall('map-public')
  },
)
mapCase(
  'F25.marketplace-stale-cache',
  'a sync shows new entries of the marketplace',
  async () => {
    await market('map-public')
    const next = { ...entry, name: 'map-next', source: './skills/map-next' }
    await collection.commit({ 'skills/map-next/SKILL.md': skillText('map-next'), ...manifests(entry, next) })
    await sync('success')
    expect(await market('map-next')).toMatchObject({ installed: false })
  },
  atOwnCollection,
)
mapCase(
  'F25.ts-client',
  'the published client installs, reads, toggles, refreshes and uninstalls',
  async () => {
    const { SkillsClient } = await import('@openhands/typescript-client/clients')
    const client = new SkillsClient({ host: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) })
    await client.installSkill(fromGit)
    expect(JSON.stringify(await client.listInstalledSkills())).toContain('map-git')
    await client.toggleSkill('map-git', false)
    expect(await userNames()).not.toContain('map-git')
    await client.refreshSkill('map-git')
    await client.getMarketplace()
    await client.uninstallSkill('map-git')
    await expect(client.getInstalledSkill('map-git')).rejects.toMatchObject({ status: 404 })
  },
)
mapCase('F25.uninstall', 'an uninstalled skill is gone everywhere', async () => {
  const { install_path } = await install({ source: await local('map-gone') })
  await uninstall('map-gone')
  await uninstall('map-gone', 404)
  await expectAnswer(map, 404, 'GET', `${installed}/map-gone`)
  expect(await userNames()).not.toContain('map-gone')
  expect(await map.runCommand(`test -e '${install_path}' || echo gone`)).toBe('gone\n')
})

endFamily('F25', 33)
