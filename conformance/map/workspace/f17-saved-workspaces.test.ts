import { expect } from 'vitest'
import { startAgentServer } from '../../support/agent-server.ts'
import { expectAnswer } from '../answers.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import { type Json, type MapClient, OwnMapServer, openMapServer } from '../map-server.ts'
import { StoredDocument } from '../stored-document.ts'

const server = openMapServer()
const own = { hasOwnServer: true }

interface Lists {
  readonly workspaces: Json[]
  readonly workspaceParents: Json[]
}

const list = (on: MapClient = server) => on.requestOrThrow<Lists>('GET', '/api/workspaces')
const item = (path: string, more: object = {}) => ({ id: path, name: path.slice(1), path, ...more })
const add = (workspaces: unknown, on: MapClient = server) =>
  on.request<Lists>('POST', '/api/workspaces', { body: { workspaces } })
const addParents = (parents: unknown, on: MapClient = server) =>
  on.request<Lists>('POST', '/api/workspaces/parents', { body: { parents } })
const remove = (path: string, on: MapClient = server) =>
  on.request('DELETE', '/api/workspaces', { query: { path } })
const removeParent = (path: string, on: MapClient = server) =>
  on.request('DELETE', '/api/workspaces/parents', { query: { path } })
const paths = (items: readonly Json[]) => items.map(({ path }) => path)
const openDocument = (of: OwnMapServer) => new StoredDocument(of, 'workspaces.json')
/** All routes, with requests that would change the lists. */
const routes = [
  ['GET', '/api/workspaces'],
  ['POST', '/api/workspaces', { body: { workspaces: [item('/map/new')] } }],
  ['DELETE', '/api/workspaces', { query: { path: '/map/a' } }],
  ['POST', '/api/workspaces/parents', { body: { parents: [item('/map/new')] } }],
  ['DELETE', '/api/workspaces/parents', { query: { path: '/map' } }],
] as const
/** A server with both lists. */
async function openWithLists(): Promise<OwnMapServer> {
  const other = await OwnMapServer.open({ key: 'k' })
  await add([item('/map/a', { parentPath: '/map' }), item('/map/b')], other)
  await addParents([item('/map')], other)
  return other
}

mapCase(
  'F17.list-empty',
  'both lists are empty at first',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    expect(await list(other)).toEqual({ workspaces: [], workspaceParents: [] })
  },
  own,
)

mapCase(
  'F17.noop-delete-no-file',
  'removals from empty lists are 404',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    expect(await remove('/never', other)).toMatchObject({
      status: 404,
      body: { detail: 'Workspace not found' },
    })
    expect(await removeParent('/never', other)).toMatchObject({
      status: 404,
      body: { detail: 'Workspace parent not found' },
    })
    expect(await list(other)).toEqual({ workspaces: [], workspaceParents: [] })
  },
  own,
)

mapCase('F17.add-workspaces', 'items are added in order, the answer is the document', async () => {
  const { status, body } = await add([item('/map/one'), item('/map/two')])
  expect(status).toBe(200)
  expect(paths(body.workspaces).slice(-2)).toEqual(['/map/one', '/map/two'])
  expect(await list()).toEqual(body)
})

mapCase(
  'F17.wire-format',
  'both spellings of the parent; unset ones and unknown members are left out',
  async () => {
    await add([
      item('/map/snake', { parent_path: '/map' }),
      item('/map/camel', { parentPath: '/map' }),
      item('/map/null', { parentPath: null, extra: 'x' }),
    ])
    const { workspaces } = await list()
    const find = (path: string) => workspaces.find((one) => one.path === path)
    expect(find('/map/snake')).toEqual(item('/map/snake', { parentPath: '/map' }))
    expect(find('/map/camel')).toEqual(item('/map/camel', { parentPath: '/map' }))
    expect(find('/map/null')).toEqual(item('/map/null'))
  },
)

mapCase('F17.idempotent-add', 'the first entry of a path stays', async () => {
  await add([item('/map/first')])
  const again = [
    { id: 'other', name: 'other', path: '/map/first' },
    item('/map/dup'),
    { ...item('/map/dup'), name: 'x' },
  ]
  const { status, body } = await add(again)
  expect(status).toBe(200)
  expect(body.workspaces.filter(({ path }) => path === '/map/first')).toEqual([item('/map/first')])
  expect(body.workspaces.filter(({ path }) => path === '/map/dup')).toEqual([item('/map/dup')])
})

mapCase('F17.delete-workspace', 'a removal removes one entry', async () => {
  await add([item('/map/d1'), item('/map/d2'), item('/map/d3')])
  const before = paths((await list()).workspaces)
  const found = await remove('/map/d2')
  expect(found.body).toEqual({ deleted: true })
  expect(paths((await list()).workspaces)).toEqual(before.filter((path) => path !== '/map/d2'))
})

mapCase('F17.delete-not-found', 'unknown paths are 404, no path is 422', async () => {
  await add([item('/map/near')])
  expect(await remove('/map/near/')).toMatchObject({ status: 404, body: { detail: 'Workspace not found' } })
  expect(await server.requestStatus('DELETE', '/api/workspaces')).toBe(422)
  expect(paths((await list()).workspaces)).toContain('/map/near')
})

mapCase(
  'F17.noop-write-untouched',
  'what changes nothing writes no file',
  async () => {
    await using other = await openWithLists()
    const file = openDocument(other)
    const before = await file.stamp()
    expect((await add([{ ...item('/map/a'), name: 'x' }, item('/map/b')], other)).status).toBe(200)
    expect((await addParents([item('/map')], other)).status).toBe(200)
    expect((await remove('/never', other)).status).toBe(404)
    expect((await removeParent('/never', other)).status).toBe(404)
    expect(await file.stamp()).toBe(before)
    await add([item('/map/c')], other)
    expect(await file.stamp()).not.toBe(before)
  },
  own,
)

mapCase('F17.paths-opaque', 'paths are stored as given', async () => {
  const odd = ['/map/x', '/map/x/', 'relative', '/map/a b&c?d#é']
  await add(odd.map((path) => item(path)))
  expect(paths((await list()).workspaces)).toEqual(expect.arrayContaining(odd))
  for (const path of odd) expect((await remove(path)).body).toEqual({ deleted: true })
})

mapCase('F17.validation', 'one invalid item stores nothing', async () => {
  const before = await list()
  const good = item('/map/good')
  for (const workspaces of [
    undefined,
    'text',
    [good, { id: 'x', name: 'x' }],
    [good, item('')],
    [good, { ...item('/map/long'), name: 'x'.repeat(257) }],
    [good, item(`/${'x'.repeat(4096)}`)],
  ])
    expect((await add(workspaces)).status).toBe(422)
  expect((await addParents(undefined)).status).toBe(422)
  expect(await list()).toEqual(before)
  expect((await add([{ ...item('/map/limit'), name: 'x'.repeat(256) }])).status).toBe(200)
})

mapCase('F17.add-parents', 'parents are added once and leave workspaces', async () => {
  const before = await list()
  const { body } = await addParents([item('/map/parent'), { ...item('/map/parent'), name: 'x' }])
  expect(body.workspaceParents.filter(({ path }) => path === '/map/parent')).toEqual([item('/map/parent')])
  expect(body.workspaces).toEqual(before.workspaces)
})

mapCase('F17.parent-children', 'a parent adds no children on its own', async () => {
  const parent = `${server.directory}/parent`
  await server.runCommand(`mkdir -p '${parent}/alpha'`)
  await addParents([item(parent)])
  expect(paths((await list()).workspaces)).not.toContain(`${parent}/alpha`)
  const found = await server.requestOrThrow('GET', '/api/file/search_subdirs', { query: { path: parent } })
  expect(JSON.stringify(found)).toContain(`${parent}/alpha`)
  const { body } = await add([item(`${parent}/alpha`, { parentPath: parent })])
  expect(body.workspaces.at(-1)).toMatchObject({ parentPath: parent })
})

mapCase('F17.delete-parent', 'children stay when their parent is removed', async () => {
  await addParents([item('/map/gone')])
  await add([item('/map/gone/child', { parentPath: '/map/gone' })])
  expect((await removeParent('/map/gone')).body).toEqual({ deleted: true })
  expect((await list()).workspaces).toContainEqual(item('/map/gone/child', { parentPath: '/map/gone' }))
  expect(await removeParent('/map/gone')).toMatchObject({
    status: 404,
    body: { detail: 'Workspace parent not found' },
  })
  expect(await server.requestStatus('DELETE', '/api/workspaces/parents')).toBe(422)
})

mapCase('F17.lists-independent', 'one path may be in both lists', async () => {
  await add([item('/map/both')])
  expect((await removeParent('/map/both')).status).toBe(404)
  await addParents([item('/map/both')])
  expect((await remove('/map/both')).status).toBe(200)
  expect(paths((await list()).workspaceParents)).toContain('/map/both')
})

mapCase(
  'F17.persist-restart',
  'both lists outlive a restart',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    await add([item('/map/a', { parentPath: '/map' }), item('/map/b')], other)
    const before = (await addParents([item('/map')], other)).body
    await other.restart()
    expect(await list(other)).toEqual(before)
  },
  own,
)

mapCase('F17.auth-required', 'the routes need a key, before the request is looked at', async () => {
  for (const [method, path] of [
    ['GET', '/api/workspaces'],
    ['POST', '/api/workspaces'],
    ['DELETE', '/api/workspaces'],
    ['POST', '/api/workspaces/parents'],
    ['DELETE', '/api/workspaces/parents'],
  ] as const)
    for (const headers of [{}, { 'x-session-api-key': 'wrong' }])
      expect(await server.requestStatus(method, path, { isAnonymous: true, headers }), path).toBe(401)
})

mapCase('F17.concurrent-adds', 'parallel changes all apply', async () => {
  const many = Array.from({ length: 20 }, (_, n) => `/map/many-${n}`)
  await Promise.all(many.flatMap((path) => [add([item(path)]), addParents([item(path)])]))
  const lists = await list()
  expect(paths(lists.workspaces)).toEqual(expect.arrayContaining(many))
  expect(paths(lists.workspaceParents)).toEqual(expect.arrayContaining(many))
  await Promise.all(many.flatMap((path) => [remove(path), removeParent(path)]))
  expect(paths((await list()).workspaces).filter((path) => many.includes(String(path)))).toEqual([])
})

differs('F17.shared-dir', 'two servers share one directory', 'several servers', async () => {
  await using other = await openWithLists()
  const before = await list(other)
  await expect(startAgentServer(other.data)).rejects.toThrow(/in use/)
  expect(await list(other)).toEqual(before)
})

mapCase('F17.ts-client', 'the requests of the TypeScript client', async () => {
  const one = item('/map/ts', { parentPath: '/map/ts-parent' })
  const before = await list()
  expect((await add([one])).body.workspaces.at(-1)).toEqual(one)
  expect((await addParents([item('/map/ts-parent')])).body.workspaceParents.at(-1)).toEqual(
    item('/map/ts-parent'),
  )
  expect((await removeParent('/map/ts-parent')).body).toEqual({ deleted: true })
  expect((await remove('/map/ts')).body).toEqual({ deleted: true })
  expect((await remove('/map/ts')).status).toBe(404)
  expect(await list()).toEqual(before)
})

mapCase(
  'F17.corrupted-file',
  'a damaged file is 409 and left as it is',
  async () => {
    await using other = await openWithLists()
    const before = await list(other)
    for (const text of ['', '{"workspaces": [', 'not json', '\0'.repeat(64), '[]', 'null'])
      await openDocument(other).whileDamaged(text, async () => {
        for (const [method, path, options] of routes) {
          const { detail } = await expectAnswer(other, 409, method, path, options)
          expect(detail).toContain('Workspaces file is corrupted')
        }
      })
    expect(await list(other)).toEqual(before)
  },
  own,
)
mapCase(
  'F17.future-schema',
  'a file of a newer schema is 409 and left as it is',
  async () => {
    await using other = await openWithLists()
    const file = openDocument(other)
    const before = await list(other)
    const stored = await file.readJson<object>()
    expect(stored).toEqual({ schema_version: 1, ...before })
    for (const more of [
      { schema_version: 2 },
      { schema_version: '1' },
      { schema_version: 1.5 },
      { workspaces: 'text' },
      { workspaceParents: {} },
    ])
      await file.whileDamaged(JSON.stringify({ ...stored, ...more }), async () => {
        for (const [method, path, options] of routes) await expectAnswer(other, 409, method, path, options)
      })
    const { schema_version: _, ...written } = { schema_version: 0, ...stored }
    await file.write(JSON.stringify(written))
    expect(await list(other)).toEqual(before)
    await add([item('/map/stamped')], other)
    expect(await file.readJson()).toMatchObject({ schema_version: 1 })
  },
  own,
)
notApplicable(
  'F17.io-error',
  'a file that cannot be read is 500',
  'the lists are in the log database, whose pages are examined at the start',
)
mapCase(
  'F17.noop-write-readonly',
  'what changes nothing needs no write',
  async () => {
    await using other = await openWithLists()
    const document = openDocument(other)
    const before = await list(other)
    const stored = await document.read()
    using writer = document.open()
    // No other connection can write.
    writer.exec('BEGIN IMMEDIATE')
    expect(await list(other)).toEqual(before)
    expect((await add([item('/map/a')], other)).status).toBe(200)
    expect((await addParents([item('/map')], other)).status).toBe(200)
    expect((await remove('/never', other)).status).toBe(404)
    expect((await removeParent('/never', other)).status).toBe(404)
    const waiting = add([item('/map/real')], other)
    expect(await document.read()).toBe(stored)
    writer.exec('ROLLBACK')
    expect((await waiting).status).toBe(200)
  },
  own,
)
mapCase(
  'F17.persistence-location',
  'the lists are in the data directory that the server was given',
  async () => {
    await using other = await openWithLists()
    const lists = await list(other)
    expect(await openDocument(other).readJson()).toMatchObject(lists)
    await using second = await OwnMapServer.open({ key: 'k', env: { HOME: other.home } })
    expect(await list(second)).toEqual({ workspaces: [], workspaceParents: [] })
    await add([item('/map/second')], second)
    expect(await list(other)).toEqual(lists)
  },
  own,
)

endFamily('F17', 24)
