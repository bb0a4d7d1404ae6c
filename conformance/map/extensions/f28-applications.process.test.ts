import { execFile } from 'node:child_process'
import { cp, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, afterEach, expect } from 'vitest'
import { expectUnauthorized } from '../answers.ts'
import { endFamily, mapCase } from '../frame.ts'
import { type Json, OwnMapServer, openMapServer, waitFor } from '../map-server.ts'
import {
  Applications,
  applicationFiles,
  applicationsPath,
  type BackendStatus,
  isAlive,
  type TestApplication,
  tarGz,
} from './application.ts'
import { GitSource } from './git-source.ts'

const map = openMapServer({}, { isProcess: true })
const apps = new Applications(map)
const own = { hasOwnServer: true }
const sources: GitSource[] = []
const installed = async () =>
  (await apps.ask<{ canvas_extensions: readonly Json[] }>(200, 'GET', 'installed')).canvas_extensions
let root: string | undefined
/** The folder of all applications of the shared server. */
const findRoot = async () => {
  if (root !== undefined) return root
  await apps.install(await apps.write({ name: 'map-root', program: false }))
  root = String((await apps.get('map-root')).install_path).replace(/\/installed\/map-root$/, '')
  return root
}
/** Unpacked programs have no right to write. */
const makeWritable = (directory: string) => promisify(execFile)('chmod', ['-R', 'u+w', directory])
afterEach(async () => {
  for (const { name } of await installed())
    if (String(name).startsWith('map-')) await apps.ask(200, 'DELETE', `installed/${name}`)
})
afterAll(async () => {
  if (root !== undefined) await makeWritable(root).catch(() => undefined)
  for (const { directory } of sources) await rm(directory, { recursive: true, force: true })
})
async function gitSource(files: Readonly<Record<string, string | Buffer>>): Promise<GitSource> {
  const source = await GitSource.create(files)
  sources.push(source)
  return source
}
const page = (name: string, manifest: object = {}): TestApplication => ({ name, program: false, manifest })
const openOwn = async () => {
  const server = await OwnMapServer.open({ key: 'map-key-2', isProcess: true })
  return {
    server,
    apps: new Applications(server),
    async [Symbol.asyncDispose]() {
      // Not killed: it ends its programs.
      await server.stop()
      await makeWritable(server.data).catch(() => undefined)
      await server[Symbol.asyncDispose]()
    },
  }
}
const fetchText = async (port: number, path: string) =>
  await (await fetch(`http://127.0.0.1:${port}${path}`)).text()
const waitForEnd = (pid: number) =>
  waitFor(
    () => isAlive(pid),
    (alive) => !alive,
  )
const sleeper = '#!/bin/sh\necho map-out\necho map-err >&2\nexec /bin/sleep 120\n'

mapCase('F28.install-local', 'a directory with a manifest installs, disabled', async () => {
  const at = await apps.write(page('map-app', { icon: 'assets/icon.svg' }))
  const found = await apps.install(at, 200, { enabled: true })
  expect(found).toMatchObject({
    name: 'map-app',
    enabled: false,
    resolved_ref: null,
    source: at,
    manifest: {
      display_name: 'Map map-app',
      icon: 'assets/icon.svg',
      contributes: { pages: [{ path: '/map-app' }] },
    },
  })
  expect(await apps.get('map-app')).toEqual(found)
  expect(await installed()).toContainEqual(found)
})
mapCase('F28.install-git', 'a repository installs with its commit', async () => {
  const source = await gitSource(applicationFiles({ name: 'map-git' }))
  const found = await apps.install(source.url)
  expect(found.resolved_ref).toMatch(/^[0-9a-f]{40}$/)
  expect(found).toMatchObject({ source: source.url, enabled: false })
  expect(await apps.get('map-git')).toEqual(found)
})
const versions = (version: string) => applicationFiles(page('map-git', { version }))
mapCase('F28.install-ref', 'a ref pins the commit', async () => {
  const source = await gitSource(versions('1.0.0'))
  const second = await source.commit(versions('2.0.0'))
  const first = (
    await promisify(execFile)('git', ['-C', source.directory, 'rev-parse', 'HEAD~1'])
  ).stdout.trim()
  await apps.install(source.url, 400, { ref: 'map-no-such-ref' })
  await apps.get('map-git', 404)
  expect(await apps.install(source.url, 200, { ref: first })).toMatchObject({
    version: '1.0.0',
    resolved_ref: first,
    manifest: { version: '1.0.0' },
  })
  expect(await apps.install(source.url, 200, { force: true })).toMatchObject({
    version: '2.0.0',
    resolved_ref: second,
  })
})
mapCase('F28.install-repo-path', 'a path of a repository installs', async () => {
  await apps.write(page('map-below'), `${map.directory}/several/map-below`)
  const source = `${map.directory}/several`
  expect(await apps.install(source, 200, { repo_path: 'map-below' })).toMatchObject({
    repo_path: 'map-below',
  })
  await apps.install(source, 400, { repo_path: 'map-nothing', force: true })
  await apps.install(source, 400, { repo_path: '../..' })
  expect(await apps.install(source, 422)).toMatchObject({
    detail: expect.stringContaining('canvas-extension.json'),
  })
})
mapCase('F28.install-errors', 'sources that cannot be fetched are 400, bad manifests 422', async () => {
  const notRead = { detail: expect.stringContaining('Could not read canvas extension source') }
  for (const source of [`${map.directory}/nothing`, 'map-not-a-source', 'github:onlyowner'])
    expect(await apps.install(source, 400)).toMatchObject(notRead)
  await mkdir(`${map.directory}/no-repository`, { recursive: true })
  await apps.install(`file://${map.directory}/no-repository`, 400)
  await apps.install('', 422)
  expect(await apps.ask(422, 'POST', 'install', {})).toMatchObject({ detail: [{ loc: ['body', 'source'] }] })
  const bad = `${map.directory}/map-bad`
  const manifests = [
    { name: 'Bad_Name' },
    { entrypoint: '../outside.js' },
    { entrypoint: 'dist/missing.js' },
    { schema_version: 2 },
  ]
  for (const manifest of manifests) {
    await apps.write(page('map-bad', manifest), bad)
    expect(await apps.install(bad, 422)).toMatchObject({
      detail: expect.stringContaining('Invalid canvas extension'),
    })
  }
  await map.upload(`${bad}/canvas-extension.json`, '{bad')
  await apps.install(bad, 422)
  await expectUnauthorized(map, ['POST', `${applicationsPath}/install`, { source: bad }])
  await apps.get('map-bad', 404)
})
mapCase('F28.bundle', 'the bundle is served byte for byte', async () => {
  await apps.install(await apps.write(page('map-app')))
  const path = `${applicationsPath}/installed/map-app/bundle`
  const found = await map.request('GET', path)
  expect(found.body).toBe("export const app = 'map-app'\n")
  expect(found.type).toContain('text/javascript')
  expect(found.headers.get('cache-control')).toBe('no-cache')
  const etag = found.headers.get('etag')
  expect(etag).toBeTruthy()
  expect((await map.request('GET', path)).headers.get('etag')).toBe(etag)
})
mapCase('F28.icon', 'the icon is served in a sandbox', async () => {
  await apps.install(await apps.write(page('map-app', { icon: 'assets/icon.svg' })))
  await apps.install(await apps.write(page('map-plain')))
  const found = await map.request('GET', `${applicationsPath}/installed/map-app/icon`)
  expect(found.body).toBe('<svg xmlns="http://www.w3.org/2000/svg"/>\n')
  expect(found.type).toBe('image/svg+xml')
  expect(found.headers.get('content-security-policy')).toMatch(/default-src 'none'.*sandbox/)
  expect(found.headers.get('x-content-type-options')).toBe('nosniff')
  await apps.ask(404, 'GET', 'installed/map-plain/icon')
})
mapCase('F28.enable-disable', 'the flag is stored', async () => {
  await apps.install(await apps.write(page('map-app')))
  for (const enabled of [true, false]) {
    const answer = await apps.ask(200, 'PATCH', 'installed/map-app', { enabled })
    expect(answer).toEqual({ name: 'map-app', enabled })
    expect(await apps.get('map-app')).toMatchObject({ enabled })
  }
  await apps.ask(422, 'PATCH', 'installed/map-app', { enabled: 'maybe' })
  await apps.ask(422, 'PATCH', 'installed/map-app', {})
})
mapCase('F28.unknown-name', 'unknown names are 404, names of another form 422', async () => {
  expect(await apps.get('map-none', 404)).toEqual({ detail: "Canvas extension 'map-none' is not installed" })
  const named = (name: string): [string, string, unknown?][] => [
    ['GET', `installed/${name}`],
    ['PATCH', `installed/${name}`, { enabled: true }],
    ['DELETE', `installed/${name}`],
    ['GET', `installed/${name}/bundle`],
    ['GET', `installed/${name}/icon`],
  ]
  for (const call of named('map-none')) await apps.ask(404, ...call)
  const revision = { revision: 'x' }
  const backend: [string, string, unknown?][] = [
    ['GET', 'installed/Bad_Name/backend'],
    ['POST', 'installed/Bad_Name/backend/prepare', revision],
    ['POST', 'installed/Bad_Name/backend/start', revision],
    ['POST', 'installed/Bad_Name/backend/stop'],
    ['GET', 'installed/Bad_Name/backend/logs'],
    ['DELETE', 'installed/Bad_Name/backend/data'],
  ]
  for (const call of [...named('Bad_Name'), ...backend])
    expect((await apps.ask<{ detail: { loc: string[] }[] }>(422, ...call)).detail[0]?.loc[1]).toBe(
      'extension_name',
    )
  await expectUnauthorized(
    map,
    ['GET', `${applicationsPath}/installed`],
    ['GET', `${applicationsPath}/installed/map-none/bundle`],
    ['POST', `${applicationsPath}/installed/map-none/backend/stop`],
  )
})
mapCase('F28.list-discovery', 'the list adopts directories', async () => {
  const at = `${await findRoot()}/installed/map-hand`
  await cp(await apps.write(page('map-hand')), at, { recursive: true })
  await apps.get('map-hand', 404)
  expect(await installed()).toContainEqual(
    expect.objectContaining({ name: 'map-hand', source: 'local', enabled: false }),
  )
  expect(await apps.get('map-hand')).toMatchObject({ source: 'local' })
  await rm(at, { recursive: true })
  await apps.get('map-hand', 404)
  expect((await installed()).map(({ name }) => name)).not.toContain('map-hand')
})
mapCase('F28.broken-install', 'a damaged application stays listed', async () => {
  const source = await apps.write(page('map-app', { icon: 'assets/icon.svg' }))
  await apps.install(source)
  const at = `${await findRoot()}/installed/map-app`
  await writeFile(`${at}/canvas-extension.json`, '{bad')
  expect(await apps.get('map-app')).toMatchObject({ manifest: null, version: '0.1.0' })
  for (const file of ['bundle', 'icon']) await apps.ask(404, 'GET', `installed/map-app/${file}`)
  expect(await apps.backend('map-app')).toMatchObject({ state: 'missing' })
  await apps.ask(200, 'PATCH', 'installed/map-app', { enabled: true })
  await cp(`${source}/canvas-extension.json`, `${at}/canvas-extension.json`)
  for (const file of ['bundle', 'icon'])
    await map.requestOrThrow('GET', `${applicationsPath}/installed/map-app/${file}`)
  for (const [file, path] of [
    ['icon', 'assets/icon.svg'],
    ['bundle', 'dist/index.js'],
  ] as const) {
    await rm(`${at}/${path}`)
    await symlink(`${source}/${path}`, `${at}/${path}`)
    await apps.ask(404, 'GET', `installed/map-app/${file}`)
    if (file === 'icon') expect((await apps.get('map-app')).manifest).not.toBe(null)
  }
  expect((await apps.get('map-app')).manifest).toBe(null)
  await apps.ask(200, 'DELETE', 'installed/map-app')
  await apps.get('map-app', 404)
})
mapCase('F28.backend-status', 'the program of an unknown application is missing, not 404', async () => {
  expect(await apps.backend('map-none')).toMatchObject({ state: 'missing', revision: null })
  await apps.install(await apps.write(page('map-app')))
  expect(await apps.backend('map-app')).toMatchObject({
    state: 'unsupported',
    revision: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    detail: expect.stringContaining('does not declare a backend'),
  })
  const source = await gitSource(applicationFiles({ name: 'map-git' }))
  const { resolved_ref } = await apps.install(source.url)
  const stopped = { state: 'stopped', revision: resolved_ref, prepared_revision: null, pid: null, port: null }
  expect(await apps.backend('map-git')).toMatchObject(stopped)
})
mapCase('F28.backend-approval-gate', 'a program starts only after its revision was approved', async () => {
  const directory = await findRoot()
  await apps.install(await apps.write({ name: 'map-app' }))
  const { revision } = await apps.backend('map-app')
  expect(await apps.backend('map-app', 'start', revision, 409)).toMatchObject({
    detail: 'backend revision must be prepared before start',
  })
  expect(await apps.backend('map-app', 'prepare', 'wrong', 409)).toMatchObject({
    detail: expect.stringContaining('does not match installed revision'),
  })
  await apps.ask(422, 'POST', 'installed/map-app/backend/prepare', {})
  await writeFile(`${directory}/installed/map-app/backend/linux.tar.gz`, tarGz([['run.js', 'other']]))
  expect(await apps.backend('map-app', 'prepare', revision, 409)).toMatchObject({
    detail: 'backend artifact checksum does not match manifest',
  })
  const remote = { url: 'https://127.0.0.1:9/x.tar.gz', sha256: 'a'.repeat(64) }
  const refused = {
    'map-unsafe': {
      archive: tarGz([
        ['run.js', ''],
        ['../map-escape', 'x'],
      ]),
    },
    'map-remote': { backend: { artifacts: { 'linux-amd64': remote, 'linux-arm64': remote } } },
  }
  const details = ['backend artifact contains an unsafe archive entry', 'backend artifact download failed']
  for (const [name, more] of Object.entries(refused)) {
    await apps.install(await apps.write({ name, ...more }))
    const { revision } = await apps.backend(name)
    expect(await apps.backend(name, 'prepare', revision, 409)).toMatchObject({ detail: details.shift() })
    expect((await apps.backend(name)).prepared_revision).toBe(null)
  }
  const found = await readdir(directory, { recursive: true })
  expect(
    found.filter((path) => /map-escape|downloads\/.|approvals\/map-|artifacts\/map-[^/]+\/./.test(path)),
  ).toEqual([])
})
mapCase('F28.backend-prepare', 'approval checks the checksum and unpacks read-only', async () => {
  const directory = await findRoot()
  const revision = await apps.prepare({ name: 'map-app' })
  expect((await apps.backend('map-app')).prepared_revision).toBe(revision)
  const [sha256 = ''] = await readdir(`${directory}/backends/artifacts/map-app`)
  const at = `${directory}/backends/artifacts/map-app/${sha256}`
  for (const path of [at, `${at}/run.js`]) expect((await stat(path)).mode & 0o777).toBe(0o555)
  await apps.backend('map-app', 'prepare', revision)
  expect(await readdir(`${directory}/backends/artifacts/map-app`)).toEqual([sha256])
})
interface Echo {
  readonly env: Readonly<Record<string, string>>
  readonly data: string
  readonly cwd: string
}
const echo = async (port: number): Promise<Echo> => JSON.parse(await fetchText(port, '/echo'))
mapCase('F28.backend-start', 'a prepared program runs with little environment', async () => {
  const directory = await findRoot()
  await apps.install(await apps.write(page('map-page')))
  const { pid, port, revision } = await apps.start({ name: 'map-app' })
  const { env, data, cwd } = await echo(port)
  expect(data).toBe(`${directory}/backends/data/map-app`)
  expect(Object.keys(env).sort()).toEqual(['HOME'])
  expect(env.HOME).toBe(`${data}/home`)
  expect(cwd).toBe(`${directory}/installed/map-app`)
  expect((await readFile(`/proc/${pid}/stat`, 'latin1')).split(') ')[1]?.split(' ')[2]).toBe(String(pid))
  expect(await apps.backend('map-app', 'start', revision)).toMatchObject({ state: 'ready', pid })
  await apps.backend('map-app', 'start', 'other', 409)
  await apps.install(`${map.directory}/map-page`, 409, { force: true })
  await apps.ask(409, 'DELETE', 'installed/map-app/backend/data')
  expect(await isAlive(pid)).toBe(true)
})
mapCase('F28.backend-stop', 'a stop ends the whole group', async () => {
  const { pid, port } = await apps.start({ name: 'map-app' })
  const child = Number(await fetchText(port, '/fork'))
  expect(await isAlive(child)).toBe(true)
  const stopped = { state: 'stopped', pid: null, port: null }
  expect(await apps.backend('map-app', 'stop')).toMatchObject(stopped)
  await waitForEnd(pid)
  await waitForEnd(child)
  await expect(fetchText(port, '/health')).rejects.toThrow()
  expect(await apps.backend('map-app', 'stop')).toMatchObject(stopped)
  expect(await apps.backend('map-none', 'stop')).toMatchObject({ state: 'missing' })
})
mapCase('F28.force-reinstall', 'force replaces the files and takes the approval back', async () => {
  const revision = await apps.prepare({ name: 'map-app' })
  const before = await apps.get('map-app')
  const bundle = () => map.request('GET', `${applicationsPath}/installed/map-app/bundle`)
  const etag = (await bundle()).headers.get('etag')
  await apps.ask(200, 'PATCH', 'installed/map-app', { enabled: true })
  const source = String(before.source)
  expect(await apps.install(source, 409)).toEqual({
    detail: 'Canvas extension already installed. Use force=true to overwrite.',
  })
  expect((await apps.get('map-app')).installed_at).toBe(before.installed_at)
  await map.upload(`${source}/dist/index.js`, 'export const version = 2\n')
  const after = await apps.install(source, 200, { force: true })
  expect(after).toMatchObject({ enabled: true })
  expect(after.installed_at).not.toBe(before.installed_at)
  const found = await bundle()
  expect(found.body).toBe('export const version = 2\n')
  expect(found.headers.get('etag')).not.toBe(etag)
  expect((await apps.backend('map-app')).prepared_revision).toBe(null)
  await apps.backend('map-app', 'start', revision, 409)
})
interface Logs {
  readonly logs: string
  readonly truncated: boolean
}
const logs = (name: string, query = '', status = 200) =>
  apps.ask<Logs>(status, 'GET', `installed/${name}/backend/logs${query}`)
mapCase('F28.backend-logs', 'output of a program, bounded', async () => {
  const revision = await apps.prepare({ name: 'map-app', program: sleeper })
  const started = apps.backend('map-app', 'start', revision)
  const starting = await waitFor(
    () => apps.backend('map-app'),
    ({ state }) => state === 'starting',
  )
  const isWhole = ({ logs }: Logs) =>
    logs.includes('[stdout] map-out\n') && logs.includes('[stderr] map-err\n')
  expect((await waitFor(() => logs('map-app'), isWhole)).truncated).toBe(false)
  expect(await apps.backend('map-app', 'stop')).toMatchObject({ state: 'stopped' })
  expect(await started).toMatchObject({ state: 'stopped' })
  await waitForEnd(starting.pid)
  expect(isWhole(await logs('map-app'))).toBe(true)
  const tail = await logs('map-app', '?limit_bytes=8')
  expect([tail.logs.length, tail.truncated]).toEqual([8, true])
  for (const limit of [0, 262_145]) await logs('map-app', `?limit_bytes=${limit}`, 422)
  await logs('map-app', '?limit_bytes=262144')
  expect(await logs('map-none')).toMatchObject({ logs: '', truncated: false })
})
// The published client has no class for applications yet: its transport asks for their routes.
mapCase('F28.ts-client', 'the TypeScript client starts and stops a program', async () => {
  const { HttpClient, HttpError } = await import('@openhands/typescript-client')
  const options = { baseUrl: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) }
  const client = new HttpClient(options)
  const path = (name: string, verb = '') => `${applicationsPath}/installed/${name}/backend${verb}`
  await apps.install(await apps.write({ name: 'map-app' }))
  const { revision, state } = (await client.get<BackendStatus>(path('map-app'))).data
  expect(state).toBe('stopped')
  const refused = client.post(path('map-app', '/start'), { revision })
  await expect(refused).rejects.toBeInstanceOf(HttpError)
  await expect(refused).rejects.toMatchObject({
    status: 409,
    response: { detail: 'backend revision must be prepared before start' },
  })
  const prepared = await client.post<BackendStatus>(path('map-app', '/prepare'), { revision })
  expect(prepared.data).toMatchObject({ prepared_revision: revision })
  expect((await client.post(path('map-app', '/start'), { revision })).data).toMatchObject({ state: 'ready' })
  expect((await client.get(path('map-app', '/logs'))).data).toMatchObject({ truncated: false })
  await expect(client.delete(path('map-app', '/data'))).rejects.toMatchObject({ status: 409 })
  expect((await client.post(path('map-app', '/stop'))).data).toMatchObject({ state: 'stopped', pid: null })
  expect((await client.delete(path('map-app', '/data'))).data).toMatchObject({ state: 'stopped' })
  const stranger = new HttpClient({ ...options, apiKey: 'a-wrong-key' })
  await expect(stranger.get(path('map-app'))).rejects.toMatchObject({
    status: 401,
    response: { detail: 'Unauthorized' },
  })
  const slow = await apps.prepare({ name: 'map-slow', program: sleeper })
  const hasty = new HttpClient({ ...options, timeout: 500 })
  const late = hasty.post(path('map-slow', '/start'), { revision: slow })
  await expect(late).rejects.toSatisfy((error: unknown) => !(error instanceof HttpError))
  expect((await client.get(path('map-slow'))).data).toMatchObject({ state: 'starting' })
  expect((await client.post(path('map-slow', '/stop'))).data).toMatchObject({ state: 'stopped' })
})
const failing = (status: number) =>
  `#!${process.execPath}\nrequire('node:http').createServer((_, response) => response.writeHead(${status}).end())
  .listen(Number(process.argv[2]), '127.0.0.1')\n`
mapCase('F28.backend-start-fails', 'a program that is not healthy ends', async () => {
  const started = [
    [
      { name: 'map-sick', program: failing(503), health: { timeout_seconds: 1 } },
      'backend health check timed out',
    ],
    [{ name: 'map-exit', program: '#!/bin/sh\nexit 3\n' }, 'backend exited with code 3'],
  ] as const
  for (const [app, detail] of started) {
    const revision = await apps.prepare(app)
    const failed = { state: 'unhealthy', detail, pid: null }
    expect(await apps.backend(app.name, 'start', revision)).toMatchObject(failed)
    expect(await apps.backend(app.name)).toMatchObject(failed)
  }
  expect(await apps.ask(200, 'DELETE', 'installed/map-sick/backend/data')).toMatchObject({
    state: 'unhealthy',
  })
})
const inherit = (...names: string[]): TestApplication => ({
  name: 'map-env',
  backend: { inherit_environment: names },
})
mapCase('F28.backend-inherit-environment', 'only allowed variables are inherited', async () => {
  for (const names of [
    ['TZ', 'OH_SECRET_KEY'],
    ['TZ', 'TZ'],
  ])
    await apps.install(await apps.write(inherit(...names)), 422)
  await apps.get('map-env', 404)
  const { port } = await apps.start(inherit('PATH', 'LC_CTYPE'))
  const names = Object.keys((await echo(port)).env).filter((name) => name !== 'LC_CTYPE')
  expect(names.sort()).toEqual(['HOME', 'PATH'])
})
mapCase('F28.disable-stops-backend', 'a disabled application stops', async () => {
  const { pid } = await apps.start({ name: 'map-app' })
  await apps.ask(200, 'PATCH', 'installed/map-app', { enabled: false })
  await waitForEnd(pid)
  expect(await apps.backend('map-app')).toMatchObject({ state: 'stopped', pid: null })
})
mapCase(
  'F28.restart-persistence',
  'installs and approvals survive a restart',
  async () => {
    await using own = await openOwn()
    const { pid, revision } = await own.apps.start({ name: 'map-app' })
    await own.apps.ask(200, 'PATCH', 'installed/map-app', { enabled: true })
    await own.server.restart()
    expect(await isAlive(pid)).toBe(false)
    expect(await own.apps.get('map-app')).toMatchObject({ enabled: true })
    expect(await own.apps.backend('map-app')).toMatchObject({ state: 'stopped', prepared_revision: revision })
    expect(await own.apps.backend('map-app', 'start', revision)).toMatchObject({ state: 'ready' })
  },
  own,
)
mapCase('F28.uninstall', 'an uninstall stops the program and keeps its data', async () => {
  const directory = await findRoot()
  const { pid } = await apps.start({ name: 'map-gone' })
  expect(await apps.ask(200, 'DELETE', 'installed/map-gone')).toEqual({
    message: "Canvas extension 'map-gone' uninstalled",
  })
  await waitForEnd(pid)
  expect(await apps.backend('map-gone')).toMatchObject({ state: 'missing' })
  await apps.ask(404, 'DELETE', 'installed/map-gone')
  const data = `${directory}/backends/data/map-gone`
  expect((await stat(data)).isDirectory()).toBe(true)
  await apps.ask(200, 'DELETE', 'installed/map-gone/backend/data')
  await expect(stat(data)).rejects.toThrow('ENOENT')
})
mapCase('F28.prepare-corrupt-archive', 'an archive that is none is 409', async () => {
  await apps.install(await apps.write({ name: 'map-app', archive: Buffer.from('plain bytes, no archive\n') }))
  const { revision } = await apps.backend('map-app')
  await apps.backend('map-app', 'prepare', revision, 409)
  expect((await apps.backend('map-app')).prepared_revision).toBe(null)
})
mapCase('F28.install-ref-cached', 'an unknown ref is 400, also of a known source', async () => {
  const source = await gitSource(versions('1.0.0'))
  const before = await apps.install(source.url)
  await apps.install(source.url, 400, { ref: 'map-no-such-ref', force: true })
  expect(await apps.get('map-git')).toEqual(before)
})
mapCase('F28.status-probe-latch', 'a slow answer is no lasting fault', async () => {
  const { port, pid, revision } = await apps.start({ name: 'map-app' })
  await fetchText(port, '/slow')
  expect(await apps.backend('map-app')).toMatchObject({ state: 'unhealthy', pid })
  await fetchText(port, '/fast')
  await waitFor(
    () => apps.backend('map-app'),
    ({ state }) => state === 'ready',
  )
  expect(await apps.backend('map-app', 'start', revision)).toMatchObject({ pid, detail: null })
})
mapCase('F28.status-exit-hang', 'a dead program with a living child answers at once', async () => {
  const { port } = await apps.start({ name: 'map-app' })
  const child = Number(await fetchText(port, '/fork'))
  await fetchText(port, '/exit').catch(() => undefined)
  const ended = (status: BackendStatus) => status.state === 'unhealthy' && status.pid === null
  await waitFor(() => apps.backend('map-app'), ended)
  expect(await apps.backend('map-app', 'stop')).toMatchObject({ state: 'stopped' })
  await waitForEnd(child)
})
mapCase(
  'F28.hard-restart-orphan',
  'programs do not outlive a killed server',
  async () => {
    await using own = await openOwn()
    const { pid, port } = await own.apps.start({ name: 'map-app' })
    const child = Number(await fetchText(port, '/fork'))
    await own.server.stop('SIGKILL')
    expect([await isAlive(pid), await isAlive(child)]).toEqual([true, true])
    await own.server.start()
    for (const left of [pid, child]) await waitForEnd(left)
    expect(await own.apps.backend('map-app')).toMatchObject({ state: 'stopped' })
  },
  own,
)

endFamily('F28', 29)
