import { stat } from 'node:fs/promises'
import { request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Applications, type BackendStatus } from '../map/extensions/application.ts'
import { OwnMapServer } from '../map/map-server.ts'

/** Programs of applications: who reaches them, and which secrets they get. */

/** Tells its arguments and environment to whoever has the key, where it has one. */
const program = `#!${process.execPath}
const { createServer } = require('node:http')
const [where, keyFile] = process.argv.slice(2)
const key = keyFile && require('node:fs').readFileSync(keyFile, 'utf8')
createServer((request, response) => {
  if (key && request.headers['x-slipway-application-key'] !== key) return response.writeHead(403).end('no key')
  response.end(JSON.stringify({ where, keyFile, env: process.env }))
}).listen(where)
`
interface Told {
  readonly where: string
  readonly keyFile: string
  readonly env: Readonly<Record<string, string>>
}

const console_ = 'https://console.example'
let server: OwnMapServer
let apps: Applications
beforeAll(async () => {
  server = await OwnMapServer.open({ key: 'key-of-the-test', env: { SLIPWAY_ALLOWED_ORIGINS: console_ } })
  apps = new Applications(server)
}, 60_000)
afterAll(() => server[Symbol.asyncDispose]())

const backend = (...places: readonly string[]) => ({ argv: ['{artifact_dir}/run.js', ...places] })

/** What the program tells at the origin of its application, and the status. */
async function ask(name: string): Promise<{ readonly status: number; readonly text: string }> {
  const { url } = await apps.ask<{ readonly url: string }>(200, 'POST', `installed/${name}/link`)
  const { host, port, pathname, search } = new URL(url)
  const call = (path: string, cookie = '') =>
    new Promise<{ status: number; text: string; cookie: string }>((done, fail) => {
      const options = { host: '127.0.0.1', port, path, headers: { host, cookie }, agent: false }
      const outgoing = request(options, async (answer) => {
        const text = Buffer.concat(await answer.toArray()).toString()
        const [line = ''] = answer.headers['set-cookie'] ?? []
        done({ status: answer.statusCode ?? 0, text, cookie: line.split(';')[0] ?? '' })
      })
      outgoing.on('error', fail).end()
    })
  const { cookie } = await call(pathname + search)
  return await call('/', cookie)
}

test('a program with {socket} listens where the user of the server alone may connect', async () => {
  const started = await apps.start({ name: 'on-socket', program, backend: backend('{socket}') })
  expect(started.port as number | null).toBeNull()
  const { status, text } = await ask('on-socket')
  expect(status).toBe(200)
  const { where }: Told = JSON.parse(text)
  const folder = await stat(where.slice(0, where.lastIndexOf('/')))
  expect((folder.mode & 0o777).toString(8)).toBe('700')
})

test('another machine, or a proxy, has no separate origin', async () => {
  const path = '/api/canvas-extensions/installed/on-socket/link'
  const ask = (headers: Record<string, string>) =>
    new Promise((done, fail) => {
      const options = { method: 'POST', headers: { ...server.headers, ...headers } }
      request(server.url + path, options, (answer) => done(answer.resume().statusCode))
        .on('error', fail)
        .end()
    })
  for (const headers of [
    { host: 'box.example' },
    { origin: console_ },
    { 'x-forwarded-host': 'box.example' },
    { 'x-forwarded-host': 'localhost, box.example' },
    { 'x-forwarded-for': '10.0.0.1' },
    { 'x-forwarded-for': '10.0.0.1, 127.0.0.1' },
    { 'x-forwarded-for': '::ffff:10.0.0.1' },
    { 'x-forwarded-for': '2001:db8::1' },
    { 'x-forwarded-for': 'unknown' },
  ])
    expect(await ask(headers), JSON.stringify(headers)).toBe(409)
  const address = '127.0.0.1, ::1, ::ffff:127.0.0.1, 127.0.0.1:8000, [::1]:8000'
  const relay = { 'x-forwarded-host': 'localhost:8000', 'x-forwarded-for': address }
  expect(await ask(relay)).not.toBe(409)
})

test('a program with {key_file} tells the requests of the server from others', async () => {
  const started = await apps.start({ name: 'with-key', program, backend: backend('{port}', '{key_file}') })
  expect((await fetch(`http://127.0.0.1:${started.port}/`)).status).toBe(403)
  const { status, text } = await ask('with-key')
  expect(status).toBe(200)
  const { keyFile }: Told = JSON.parse(text)
  expect(((await stat(keyFile)).mode & 0o777).toString(8)).toBe('600')
})

test('a program gets the secrets that its approval names, and no others', async () => {
  for (const [name, value] of [
    ['MAIL_TOKEN', 'value of the mail token'],
    ['OTHER_TOKEN', 'value of the other token'],
  ])
    await server.requestOrThrow('PUT', '/api/settings/secrets', { body: { name, value } })
  const secrets = ['MAIL_TOKEN']
  const app = { name: 'with-secret', program, backend: { ...backend('{socket}'), secrets } }
  await apps.install(await apps.write(app))
  const { revision } = await apps.backend(app.name)
  const path = `installed/${app.name}/backend/prepare`
  for (const named of [undefined, [], ['OTHER_TOKEN'], ['MAIL_TOKEN', 'OTHER_TOKEN']])
    expect(await apps.ask(409, 'POST', path, { revision, secrets: named })).toMatchObject({
      detail: 'The approval has to name the secrets that the program gets: MAIL_TOKEN',
    })
  await apps.backend(app.name, 'start', revision, 409)
  await apps.ask<BackendStatus>(200, 'POST', path, { revision, secrets })
  expect(await apps.backend(app.name, 'start', revision)).toMatchObject({ state: 'ready' })
  const { env }: Told = JSON.parse((await ask(app.name)).text)
  expect(Object.keys(env).sort()).toEqual(['HOME', 'MAIL_TOKEN'])
  expect(env.MAIL_TOKEN).toBe('value of the mail token')
  await apps.backend(app.name, 'stop')
  await server.requestOrThrow('DELETE', '/api/settings/secrets/MAIL_TOKEN')
  expect(await apps.backend(app.name, 'start', revision, 409)).toMatchObject({
    detail: 'The secret MAIL_TOKEN is not stored on this server',
  })
})
