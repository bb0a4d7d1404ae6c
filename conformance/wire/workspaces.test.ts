import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { openWire, prove } from './wire-server.ts'

const wire = openWire()

interface Lists {
  readonly workspaces: readonly { readonly path: string; readonly [member: string]: unknown }[]
  readonly workspaceParents: readonly { readonly path: string; readonly [member: string]: unknown }[]
}

const lists = () => wire.must<Lists>('GET', '/api/workspaces')
/** One that is there, with a name of its own. */
async function folder() {
  const id = randomUUID()
  const path = `${wire.directory}/${id}`
  await wire.bash(`mkdir -p '${path}'`)
  return { id, name: 'Of a test', path }
}

prove('GET /api/workspaces', 'has two lists in camel case', async () => {
  const body = await lists()
  expect([Array.isArray(body.workspaces), Array.isArray(body.workspaceParents)]).toEqual([true, true])
})

prove('POST /api/workspaces', 'adds, each path once, and answers both lists', async () => {
  const one = await folder()
  const workspaces = [{ ...one, parentPath: wire.directory }]
  for (let times = 0; times < 2; times += 1) {
    const body = await wire.must<Lists>('POST', '/api/workspaces', { body: { workspaces } })
    expect(body.workspaces.filter(({ path }) => path === one.path)).toMatchObject([
      { name: one.name, parentPath: wire.directory },
    ])
    expect(body).toHaveProperty('workspaceParents')
  }
  for (const body of [{}, { workspaces: 5 }])
    expect(await wire.status('POST', '/api/workspaces', { body })).toBe(422)
  await wire.must('DELETE', '/api/workspaces', { query: { path: one.path } })
})

prove(
  'DELETE /api/workspaces',
  'takes one off the list by its path, and not off the disk; unknown is 404',
  async () => {
    const one = await folder()
    await wire.must('POST', '/api/workspaces', { body: { workspaces: [one] } })
    expect(await wire.status('DELETE', '/api/workspaces', { query: { path: one.path } })).toBe(200)
    expect((await lists()).workspaces.map(({ path }) => path)).not.toContain(one.path)
    expect(await wire.bash(`test -d '${one.path}' && echo there`)).toBe('there\n')
    expect(await wire.status('DELETE', '/api/workspaces', { query: { path: one.path } })).toBe(404)
    expect(await wire.status('DELETE', '/api/workspaces')).toBe(422)
  },
)

prove('POST /api/workspaces/parents', 'adds a folder of workspaces, once', async () => {
  const one = await folder()
  for (let times = 0; times < 2; times += 1) {
    const body = await wire.must<Lists>('POST', '/api/workspaces/parents', { body: { parents: [one] } })
    expect(body.workspaceParents.filter(({ path }) => path === one.path)).toMatchObject([{ name: one.name }])
  }
  expect(await wire.status('POST', '/api/workspaces/parents', { body: {} })).toBe(422)
  await wire.must('DELETE', '/api/workspaces/parents', { query: { path: one.path } })
})

prove('DELETE /api/workspaces/parents', 'takes one off the list by its path; unknown is 404', async () => {
  const one = await folder()
  await wire.must('POST', '/api/workspaces/parents', { body: { parents: [one] } })
  expect(await wire.status('DELETE', '/api/workspaces/parents', { query: { path: one.path } })).toBe(200)
  expect((await lists()).workspaceParents.map(({ path }) => path)).not.toContain(one.path)
  expect(await wire.status('DELETE', '/api/workspaces/parents', { query: { path: one.path } })).toBe(404)
})
