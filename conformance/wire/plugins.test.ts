import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()

interface Plugins {
  readonly plugins: readonly { readonly name: string; readonly [member: string]: unknown }[]
}

/** Creates a folder with a plugin that has one skill; the name is unique. */
async function createPluginFolder(at = wire.directory): Promise<{ name: string; source: string }> {
  const name = `wire-${randomUUID().slice(0, 8)}`
  const source = `${at}/${name}`
  const manifest = { name, version: '1.2.3', description: 'A plugin of a test.' }
  await wire.upload(`${source}/.plugin/plugin.json`, JSON.stringify(manifest))
  await wire.upload(
    `${source}/skills/${name}-skill/SKILL.md`,
    `---\nname: ${name}-skill\ndescription: Of a plugin.\n---\n\nFrom a plugin.\n`,
  )
  return { name, source }
}

async function installPlugin(): Promise<{ name: string; source: string }> {
  const made = await createPluginFolder()
  await wire.requestOrThrow('POST', '/api/plugins/install', { body: { source: made.source } })
  return made
}

wireCase('POST /api/plugins', 'lists the plugins of a project with their skills and files', async () => {
  const project_dir = `${wire.directory}/project`
  const { name } = await createPluginFolder(`${project_dir}/.agents/plugins`)
  const { plugins } = await wire.requestOrThrow<Plugins>('POST', '/api/plugins', {
    body: { load_user: false, load_project: true, project_dir },
  })
  expect(plugins).toMatchObject([
    {
      name,
      version: '1.2.3',
      description: 'A plugin of a test.',
      path: `${project_dir}/.agents/plugins/${name}`,
      skills: [{ name: `${name}-skill` }],
      files: expect.any(Array),
    },
  ])
  const body = { load_user: true, load_project: true, project_dir: `${wire.directory}/nothing` }
  expect(await wire.requestOrThrow('POST', '/api/plugins', { body })).toMatchObject({
    plugins: expect.any(Array),
  })
  expect(await wire.requestStatus('POST', '/api/plugins', { body: { load_user: 'perhaps' } })).toBe(422)
})

wireCase(
  'POST /api/plugins/install',
  'installs from a folder; 409 the second time, 400 for an empty folder, 422 for an invalid request',
  async () => {
    const { name, source } = await createPluginFolder()
    const done = await wire.requestOrThrow('POST', '/api/plugins/install', { body: { source } })
    expect(done).toMatchObject({ name, version: '1.2.3', enabled: true, install_path: expect.any(String) })
    expect(await wire.requestStatus('POST', '/api/plugins/install', { body: { source } })).toBe(409)
    expect(
      await wire.requestStatus('POST', '/api/plugins/install', { body: { source, force: true } }),
    ).toBeLessThan(300)
    await wire.requestOrThrow('DELETE', `/api/plugins/installed/${name}`)
    expect(
      await wire.requestStatus('POST', '/api/plugins/install', { body: { source: `${wire.directory}/no` } }),
    ).toBe(400)
    expect(await wire.requestStatus('POST', '/api/plugins/install', { body: {} })).toBe(422)
  },
)

wireCase('GET /api/plugins/installed', 'lists installed ones', async () => {
  const { name } = await installPlugin()
  const { plugins } = await wire.requestOrThrow<Plugins>('GET', '/api/plugins/installed')
  expect(plugins.map((plugin) => plugin.name)).toContain(name)
  await wire.requestOrThrow('DELETE', `/api/plugins/installed/${name}`)
})

wireCase('GET /api/plugins/installed/{name}', 'returns one, or 404', async () => {
  const { name } = await installPlugin()
  expect(await wire.requestOrThrow('GET', `/api/plugins/installed/${name}`)).toMatchObject({ name })
  await wire.requestOrThrow('DELETE', `/api/plugins/installed/${name}`)
  expect(await wire.requestStatus('GET', `/api/plugins/installed/${name}`)).toBe(404)
})

wireCase('PATCH /api/plugins/installed/{name}', 'disables and enables it, or is 404', async () => {
  const { name } = await installPlugin()
  const url = `/api/plugins/installed/${name}`
  for (const enabled of [false, true])
    expect(await wire.requestOrThrow('PATCH', url, { body: { enabled } })).toEqual({ name, enabled })
  await wire.requestOrThrow('DELETE', url)
  expect(await wire.requestStatus('PATCH', url, { body: { enabled: true } })).toBe(404)
})

wireCase('DELETE /api/plugins/installed/{name}', 'removes it, or is 404', async () => {
  const { name } = await installPlugin()
  expect(await wire.requestOrThrow('DELETE', `/api/plugins/installed/${name}`)).toMatchObject({
    message: expect.any(String),
  })
  expect(await wire.requestStatus('DELETE', `/api/plugins/installed/${name}`)).toBe(404)
})

wireCase('POST /api/plugins/installed/{name}/refresh', 'refreshes it, or is 404', async () => {
  const { name } = await installPlugin()
  expect(await wire.requestOrThrow('POST', `/api/plugins/installed/${name}/refresh`)).toMatchObject({
    message: expect.any(String),
    plugin: { name },
  })
  await wire.requestOrThrow('DELETE', `/api/plugins/installed/${name}`)
  expect(await wire.requestStatus('POST', `/api/plugins/installed/${name}/refresh`)).toBe(404)
})

wireCase('GET /api/plugins/marketplace', 'returns a list', async () => {
  expect(await wire.requestOrThrow('GET', '/api/plugins/marketplace')).toMatchObject({
    plugins: expect.any(Array),
  })
})

wireCase('GET /api/canvas-extensions/installed', 'returns a list', async () => {
  const body = await wire.requestOrThrow('GET', '/api/canvas-extensions/installed')
  expect(body).toMatchObject({ canvas_extensions: expect.any(Array) })
})
