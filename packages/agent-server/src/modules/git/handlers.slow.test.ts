import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createApp, listen } from '@slipway/http'
import { agentServerOpenApi, gitRoutes } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { GitReader } from './git-reader.ts'
import { gitHandlers } from './handlers.ts'
import { RepositorySearch } from './repository-search.ts'

/**
 * A server of these routes alone, and a repository with one commit and one changed file of an awkward name.
 */
async function openServer() {
  const directory = temporaryDirectory()
  const env = { PATH: process.env.PATH ?? '', HOME: directory.path }
  const root = join(directory.path, 'räpo & co')
  mkdirSync(root)
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x', ...args], {
      cwd: root,
      env,
      stdio: 'pipe',
    })
  git('init', '-q')
  writeFileSync(join(root, 'a b%2F?.txt'), 'one')
  git('add', '-A')
  git('commit', '-qm', 'first')
  writeFileSync(join(root, 'a b%2F?.txt'), 'two')
  const secrets = { getValue: async () => undefined }
  const repositories = new RepositorySearch({ secrets, apiUrl: 'http://127.0.0.1:9', fetch })
  const web = createApp(gitRoutes, gitHandlers({ reader: new GitReader(env), repositories }), {
    openapi: agentServerOpenApi,
    log: () => {},
  })
  const listening = await listen(web, { host: '127.0.0.1', port: 0 })
  return {
    root,
    async get(path: string, query: Readonly<Record<string, string>> = {}) {
      const response = await fetch(`${listening.url}/api/git/${path}?${new URLSearchParams(query)}`)
      return { status: response.status, json: await response.json() }
    },
    async [Symbol.asyncDispose]() {
      await listening.close()
      directory[Symbol.dispose]()
    },
  }
}

const changes = [{ status: 'UPDATED', path: 'a b%2F?.txt' }]
const sides = { original: 'one', modified: 'two' }

test('changes and diff are answered for a path in the query, and in the address as older clients have it', async () => {
  await using server = await openServer()
  const { root, get } = server
  const file = join(root, 'a b%2F?.txt')
  expect(await get('changes', { path: root })).toEqual({ status: 200, json: changes })
  expect(await get('diff', { path: file })).toEqual({ status: 200, json: sides })
  const slashes = (path: string) => path.split('/').map(encodeURIComponent).join('/')
  for (const form of [
    encodeURIComponent(root),
    slashes(root),
    slashes(root).slice(1),
    encodeURIComponent(root.slice(1)),
  ]) {
    expect(await get(`changes/${form}`)).toEqual({ status: 200, json: changes })
  }
  for (const form of [encodeURIComponent(file), slashes(file), slashes(file).slice(1)]) {
    expect(await get(`diff/${form}`)).toEqual({ status: 200, json: sides })
  }
  expect(await get('changes', { path: root, ref: '' })).toEqual({ status: 200, json: changes })
})

test('commits and what each changed', async () => {
  await using server = await openServer()
  const { root, get } = server
  const { json } = await get('commits', { path: root, limit: '1' })
  expect(json).toMatchObject({ commits: [{ subject: 'first', author: 'x' }], has_more: false })
  expect(await get(`commits/${json.commits[0].sha}/changes`, { path: root })).toEqual({
    status: 200,
    json: [{ status: 'ADDED', path: 'a b%2F?.txt' }],
  })
})

test('what is wrong in a question is 400 or 422, and what is missing is empty', async () => {
  await using server = await openServer()
  const { root, get } = server
  expect((await get('changes')).status).toBe(422)
  expect((await get('changes', { path: '' })).status).toBe(422)
  for (const limit of ['0', '201', 'x'])
    expect((await get('commits', { path: root, limit })).status).toBe(422)
  expect((await get('changes', { path: root, ref: 'none' })).status).toBe(400)
  expect((await get('diff', { path: join(root, 'x'), ref: 'HEAD', commit: 'abcd' })).status).toBe(400)
  expect((await get('diff', { path: join(root, 'missing') })).status).toBe(400)
  expect((await get('changes', { path: 'a\0b' })).status).toBe(400)
  expect((await get('changes/%00')).status).toBe(400)
  expect((await get('commits/zz/changes', { path: root })).status).toBe(422)
  expect(await get('changes', { path: '/none/such' })).toEqual({ status: 200, json: [] })
  expect(await get('diff', { path: `/none/${'x/'.repeat(3000)}y` })).toMatchObject({ status: 200 })
})
