import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()

interface Lists {
  readonly workspaces: readonly { readonly path: string; readonly [member: string]: unknown }[]
  readonly workspaceParents: readonly { readonly path: string; readonly [member: string]: unknown }[]
}

const getWorkspaces = () => wire.requestOrThrow<Lists>('GET', '/api/workspaces')
/** Creates a folder with a unique name. */
async function createFolder() {
  const id = randomUUID()
  const path = `${wire.directory}/${id}`
  await wire.runCommand(`mkdir -p '${path}'`)
  return { id, name: 'Of a test', path }
}

wireCase('GET /api/workspaces', 'has two lists in camel case', async () => {
  const body = await getWorkspaces()
  expect([Array.isArray(body.workspaces), Array.isArray(body.workspaceParents)]).toEqual([true, true])
})

wireCase('POST /api/workspaces', 'adds each path once, and returns both lists', async () => {
  const one = await createFolder()
  const workspaces = [{ ...one, parentPath: wire.directory }]
  for (let times = 0; times < 2; times += 1) {
    const body = await wire.requestOrThrow<Lists>('POST', '/api/workspaces', { body: { workspaces } })
    expect(body.workspaces.filter(({ path }) => path === one.path)).toMatchObject([
      { name: one.name, parentPath: wire.directory },
    ])
    expect(body).toHaveProperty('workspaceParents')
  }
  for (const body of [{}, { workspaces: 5 }])
    expect(await wire.requestStatus('POST', '/api/workspaces', { body })).toBe(422)
  await wire.requestOrThrow('DELETE', '/api/workspaces', { query: { path: one.path } })
})

wireCase(
  'DELETE /api/workspaces',
  'removes one from the list by its path, not from disk; unknown is 404',
  async () => {
    const one = await createFolder()
    await wire.requestOrThrow('POST', '/api/workspaces', { body: { workspaces: [one] } })
    expect(await wire.requestStatus('DELETE', '/api/workspaces', { query: { path: one.path } })).toBe(200)
    expect((await getWorkspaces()).workspaces.map(({ path }) => path)).not.toContain(one.path)
    expect(await wire.runCommand(`test -d '${one.path}' && echo there`)).toBe('there\n')
    expect(await wire.requestStatus('DELETE', '/api/workspaces', { query: { path: one.path } })).toBe(404)
    expect(await wire.requestStatus('DELETE', '/api/workspaces')).toBe(422)
  },
)

wireCase('POST /api/workspaces/parents', 'adds a folder of workspaces, once', async () => {
  const one = await createFolder()
  for (let times = 0; times < 2; times += 1) {
    const body = await wire.requestOrThrow<Lists>('POST', '/api/workspaces/parents', {
      body: { parents: [one] },
    })
    expect(body.workspaceParents.filter(({ path }) => path === one.path)).toMatchObject([{ name: one.name }])
  }
  expect(await wire.requestStatus('POST', '/api/workspaces/parents', { body: {} })).toBe(422)
  await wire.requestOrThrow('DELETE', '/api/workspaces/parents', { query: { path: one.path } })
})

wireCase(
  'DELETE /api/workspaces/parents',
  'removes one from the list by its path; unknown is 404',
  async () => {
    const one = await createFolder()
    await wire.requestOrThrow('POST', '/api/workspaces/parents', { body: { parents: [one] } })
    expect(await wire.requestStatus('DELETE', '/api/workspaces/parents', { query: { path: one.path } })).toBe(
      200,
    )
    expect((await getWorkspaces()).workspaceParents.map(({ path }) => path)).not.toContain(one.path)
    expect(await wire.requestStatus('DELETE', '/api/workspaces/parents', { query: { path: one.path } })).toBe(
      404,
    )
  },
)
