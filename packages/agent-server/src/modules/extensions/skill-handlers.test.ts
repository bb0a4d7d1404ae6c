import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createApp, listen } from '@slipway/http'
import { agentServerOpenApi, pluginRoutes, skillRoutes } from '@slipway/protocol'
import { openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { openRegistry, temporaryDirectory } from '../../testing/fixtures.ts'
import { openExtensions } from './open-extensions.ts'

/** A server of these routes alone, with a home and a project that files can be put into. */
async function openServer() {
  const directory = temporaryDirectory()
  const [homeDirectory, project] = [join(directory.path, 'home'), join(directory.path, 'project')]
  const lines: unknown[] = []
  const put = (base: string, path: string, content: string) => {
    mkdirSync(dirname(join(base, path)), { recursive: true })
    writeFileSync(join(base, path), content)
  }
  const data = join(directory.path, 'data')
  const storage = await openStorage({ directory: data, log: () => {} })
  const registry = await openRegistry(storage, data)
  const extensions = openExtensions({
    directory: data,
    registry,
    environment: { PATH: '/usr/bin:/bin', HOME: homeDirectory },
    skillsSource: undefined,
    marketplaces: [],
    log: (...line) => void lines.push(line),
  })
  const web = createApp({ ...skillRoutes, ...pluginRoutes }, extensions.handlers, {
    openapi: agentServerOpenApi,
    log: () => {},
  })
  const listening = await listen(web, { host: '127.0.0.1', port: 0 })
  return {
    home: homeDirectory,
    project,
    lines,
    put,
    async post(path: string, body?: unknown) {
      const json = { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
      const response = await fetch(`${listening.url}/api/${path}`, {
        method: 'POST',
        ...(body === undefined ? {} : json),
      })
      return { status: response.status, json: await response.json() }
    },
    async [Symbol.asyncDispose]() {
      await listening.close()
      await extensions[Symbol.asyncDispose]()
      await registry[Symbol.asyncDispose]()
      await storage[Symbol.asyncDispose]()
      directory[Symbol.dispose]()
    },
  }
}

const skill = (name: string, more = '') =>
  `---\nname: ${name}\ndescription: About ${name}.\n${more}---\nDo ${name}.\n`

test('skills of user and project are listed by name; those of the project win', async () => {
  await using server = await openServer()
  const { home, project, put, post } = server
  put(project, 'AGENTS.md', 'Always.')
  put(project, '.agents/skills/both/SKILL.md', skill('both'))
  put(home, '.agents/skills/both/SKILL.md', skill('both', 'license: of the user\n'))
  put(home, '.agents/skills/mine/SKILL.md', skill('mine', 'disable-model-invocation: true\n'))
  put(home, '.openhands/skills/words.md', '---\ntriggers:\n- apple\n- /pear\n---\nFruit.')
  const { status, json } = await post('skills', { project_dir: project, unheard_of: 1, load_public: true })
  expect(status).toBe(200)
  expect(json.skills.map((one: { name: string; type: string }) => [one.name, one.type])).toEqual([
    ['agents', 'repo'],
    ['both', 'agentskills'],
    ['mine', 'agentskills'],
    ['words', 'knowledge'],
  ])
  expect(json.sources).toEqual({ sandbox: 0, registered_marketplaces: 0, sdk_base: 2, org: 0, project: 2 })
  const [always, both, mine, words] = json.skills
  expect(always).toMatchObject({ content: 'Always.', triggers: [], description: null })
  expect(both).toMatchObject({
    source: join(project, '.agents/skills/both/SKILL.md'),
    is_agentskills_format: true,
  })
  expect(mine).toMatchObject({ description: 'About mine.', disable_model_invocation: true })
  expect(words.triggers).toEqual(['apple', '/pear'])
})

test('only requested sources are listed, and the body is optional', async () => {
  await using server = await openServer()
  const { home, project, put, post } = server
  put(project, 'AGENTS.md', 'Always.')
  put(home, '.agents/skills/mine/SKILL.md', skill('mine'))
  const names = async (body?: unknown) =>
    (await post('skills', body)).json.skills.map((one: { name: string }) => one.name)
  expect(await names()).toEqual(['mine'])
  expect(await names({ load_user: false, project_dir: project })).toEqual(['agents'])
  expect(await names({ load_project: false, project_dir: project })).toEqual(['mine'])
  expect(await names({ project_dir: null, load_user: null })).toEqual(['mine'])
  expect(await names({ project_dir: '/none/such' })).toEqual(['mine'])
  expect((await post('skills', { project_dir: 'a\0b' })).status).toBe(422)
  expect((await post('skills', { project_dir: 5 })).status).toBe(422)
})

test('an invalid file is skipped and logged', async () => {
  await using server = await openServer()
  const { project, put, post, lines } = server
  put(project, '.agents/skills/bad/SKILL.md', '---\nname: [\n---\n')
  put(project, '.agents/skills/good/SKILL.md', skill('good'))
  put(project, '.openhands/hooks.json', '{"stop": 5}')
  expect((await post('skills', { project_dir: project })).json.skills).toHaveLength(1)
  expect((await post('hooks', { project_dir: project })).json).toEqual({ hook_config: null })
  expect(JSON.stringify(lines)).toMatch(/bad\/SKILL\.md.*hooks\.json/s)
})

test('hooks come from the project, else from the user, else null', async () => {
  await using server = await openServer()
  const { home, project, put, post } = server
  const file = '.openhands/hooks.json'
  const hooks = (command: string) =>
    JSON.stringify({ hooks: { Stop: [{ hooks: [{ command }] }], SessionStart: [{ hooks: [{ command }] }] } })
  expect((await post('hooks', { project_dir: project })).json).toEqual({ hook_config: null })
  put(home, file, hooks('of the user'))
  expect((await post('hooks', {})).json.hook_config.stop[0].hooks[0].command).toBe('of the user')
  put(project, file, hooks('of the project'))
  const { hook_config } = (await post('hooks', { project_dir: project })).json
  expect(hook_config.stop[0]).toMatchObject({
    matcher: '*',
    hooks: [{ command: 'of the project', timeout: 60 }],
  })
  expect(hook_config.session_start[0].hooks[0].command).toBe('of the project')
})
