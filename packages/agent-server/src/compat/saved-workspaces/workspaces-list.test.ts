import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { workspacesListRoutes } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fileDocuments } from '../../testing/file-documents.ts'
import { openTestServer } from '../../testing/test-server.ts'
import { workspacesListHandlers } from './handlers.ts'
import { WorkspacesList } from './workspaces-list.ts'

const path = '/api/workspaces'

async function openServer() {
  const server = await openTestServer(workspacesListRoutes, ({ directory }) =>
    workspacesListHandlers({
      workspaces: new WorkspacesList({ documents: fileDocuments(directory) }),
    }),
  )
  return { ...server, file: join(server.directory, 'workspaces.json') }
}

const one = { id: '1', name: 'One', path: '/one' }
const two = { id: '2', name: 'Two', path: '/p/two', parentPath: '/p' }
const parent = { id: 'p', name: 'P', path: '/p' }

test('workspaces and their parents are added, listed and removed by path', async () => {
  await using server = await openServer()
  const { call } = server
  expect(await call('GET', path)).toEqual({ status: 200, json: { workspaces: [], workspaceParents: [] } })
  const both = { workspaces: [one, two], workspaceParents: [parent] }
  await call('POST', path, { workspaces: [{ ...one, parentPath: null, more: 1 }, two] })
  expect(await call('POST', `${path}/parents`, { parents: [parent] })).toEqual({ status: 200, json: both })
  expect(await call('GET', path)).toEqual({ status: 200, json: both })
  expect(await new WorkspacesList({ documents: fileDocuments(server.directory) }).read()).toEqual(both)
  expect(await call('DELETE', `${path}?path=${encodeURIComponent('/p/two')}`)).toEqual({
    status: 200,
    json: { deleted: true },
  })
  expect(await call('DELETE', `${path}/parents?path=/p`)).toEqual({
    status: 200,
    json: { deleted: true },
  })
  expect((await call('GET', path)).json).toEqual({ workspaces: [one], workspaceParents: [] })
  for (const gone of [`${path}?path=/p/two`, `${path}/parents?path=/p`, `${path}/parents?path=/one`])
    expect(await call('DELETE', gone)).toMatchObject({ status: 404 })
  expect(await call('DELETE', path)).toMatchObject({
    status: 422,
    json: { detail: [{ loc: ['query', 'path'] }] },
  })
})

test('of two with one path the first stays', async () => {
  await using server = await openServer()
  const { call } = server
  const added = await call('POST', path, { workspaces: [one, { ...one, id: 'other', name: 'Other' }, two] })
  expect(added).toMatchObject({ json: { workspaces: [one, two] } })
  const before = await readFile(server.file, 'utf8')
  expect(await call('POST', path, { workspaces: [{ ...two, name: 'New' }] })).toEqual(added)
  expect(await readFile(server.file, 'utf8')).toBe(before)
})

test('what is no workspace is refused with its place, and nothing of the request is kept', async () => {
  await using server = await openServer()
  const { call } = server
  const bad: readonly (readonly [object, string])[] = [
    [{ ...two, path: '' }, 'path'],
    [{ ...two, path: 'a\0b' }, 'path'],
    [{ ...two, path: `/${'x'.repeat(5000)}` }, 'path'],
    [{ ...two, path: undefined }, 'path'],
    [{ ...two, id: 5 }, 'id'],
    [{ ...two, parentPath: 7 }, 'parentPath'],
  ]
  for (const [item, member] of bad)
    expect(await call('POST', path, { workspaces: [one, item] })).toMatchObject({
      status: 422,
      json: { detail: [{ loc: ['body', 'workspaces', 1, member] }] },
    })
  expect(await call('POST', path, {})).toMatchObject({ status: 422 })
  expect(await call('POST', `${path}/parents`, { parents: 'x' })).toMatchObject({ status: 422 })
  expect(await call('GET', path)).toMatchObject({ json: { workspaces: [] } })
})

test('the list does not grow without end', async () => {
  await using server = await openServer()
  const some = (from: number) =>
    Array.from({ length: 1000 }, (_, at) => ({ id: 'x', name: 'x', path: `/${from + at}` }))
  for (const from of [0, 1000, 2000, 3000, 4000])
    expect((await server.call('POST', path, { workspaces: some(from) })).status).toBe(200)
  expect((await server.call('POST', path, { workspaces: [one] })).status).toBe(409)
  expect((await server.call('POST', path, { workspaces: some(0) })).status).toBe(200)
  expect((await server.call('POST', path, { workspaces: [...some(0), one] })).status).toBe(422)
})

test('a damaged file is a conflict and is not written over', async () => {
  await using server = await openServer()
  for (const text of ['{"workspaces": [', '[]', '{"workspaces": [{}], "workspaceParents": []}']) {
    await writeFile(server.file, text)
    expect((await server.call('GET', path)).status).toBe(409)
    expect((await server.call('POST', path, { workspaces: [one] })).status).toBe(409)
    expect(await readFile(server.file, 'utf8')).toBe(text)
  }
})

test('changes at the same time are all kept, with any path', { timeout: 60_000 }, async () => {
  await using server = await openServer()
  const word = fc
    .string({ minLength: 1, maxLength: 40, unit: 'binary' })
    .filter((text) => !text.includes('\0') && text.isWellFormed())
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(word, { minLength: 1, maxLength: 8 }), async (paths) => {
      await Promise.all(
        paths.map((path) => server.call('POST', '/api/workspaces', { workspaces: [{ ...one, path }] })),
      )
      const { json } = await server.call('GET', path)
      const listed: { path: string }[] = Object(json).workspaces
      expect(listed.map((item) => item.path).sort()).toEqual([...paths].sort())
      const gone = await Promise.all(
        paths.map((text) => server.call('DELETE', `${path}?path=${encodeURIComponent(text)}`)),
      )
      expect(gone.map(({ status }) => status)).toEqual(paths.map(() => 200))
    }),
    { numRuns: 25 },
  )
  expect(await server.call('GET', path)).toMatchObject({ json: { workspaces: [] } })
})
