import { once } from 'node:events'
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { type EditorProgramState, writeEditorProgram } from '../../testing/editor-program.ts'
import { Editor, type EditorSettings } from './editor.ts'

const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
)
let directory: string
let logLines: string[]

beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-editor-')))
  logLines = []
})
afterEach(() => rm(directory, { recursive: true, force: true }))

async function start(settings: Partial<EditorSettings> = {}): Promise<Editor> {
  return await Editor.start({
    settings: { command: undefined, path: directory, host: '127.0.0.1', port: 0, basePath: '', ...settings },
    directory: join(directory, 'files'),
    environment: { PATH: '/usr/bin:/bin', HOME: directory, SLIPWAY_SERVER: 'marker-of-the-server' },
    allowedOrigins: ['https://console.example'],
    leftoversKilled: Promise.resolve(),
    log: (_, message, members) => logLines.push(`${message} ${JSON.stringify(members)}`),
  })
}

async function holdPort(host: string): Promise<AsyncDisposable & { readonly port: number }> {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return { port, [Symbol.asyncDispose]: async () => void server.close() }
}

async function until(isDone: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 20_000; !(await isDone()); await sleep(20))
    if (Date.now() > end) throw new Error(`timed out: ${logLines.join('\n')}`)
}

/** Opens the address with the token as a browser does; returns the cookie and the address without it. */
async function signIn(editor: Editor, folder = '/w'): Promise<{ cookie: string; url: string }> {
  await until(() => editor.isRunning)
  const address = editor.url(folder) ?? ''
  const answer = await fetch(address, { redirect: 'manual' })
  expect(answer.status).toBe(302)
  const cookie = answer.headers.getSetCookie()[0] ?? ''
  expect(cookie).toMatch(/; HttpOnly; SameSite=Lax$/)
  const url = new URL(answer.headers.get('location') ?? '', address)
  expect([...url.searchParams]).toEqual([['folder', folder]])
  return { cookie: cookie.split(';')[0] ?? '', url: url.href }
}

async function readState(url: string, cookie: string): Promise<EditorProgramState> {
  return await (await fetch(new URL('state', url), { headers: { cookie } })).json()
}

async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  return stat !== undefined && !/\) [ZX] /.test(stat)
}

/** The status with which an upgrade is refused; 101 with the first message when it is accepted. */
async function openSocket(url: string, headers: Record<string, string>): Promise<[number, string]> {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), { headers })
  return await new Promise((done, fail) => {
    socket.once('message', (data) => {
      socket.terminate()
      done([101, String(data)])
    })
    socket.once('unexpected-response', (_, { statusCode = 0 }) => {
      socket.terminate()
      done([statusCode, ''])
    })
    socket.once('error', fail)
  })
}

test.each(['openvscode-server', 'code-server'])('%s of the PATH is opened by the token', async (name) => {
  await writeEditorProgram(directory, name)
  await using editor = await start()
  expect([editor.isRunning, editor.url('/w')]).toEqual([false, undefined])
  const { cookie, url } = await signIn(editor, '/w/a b&c=1#d')
  expect(await (await fetch(url, { headers: { cookie } })).text()).toBe('<h1>editor</h1>')
  const state = await readState(url, `a=1; ${cookie}; b=2`)
  expect(state.headers).toMatchObject({ cookie: 'a=1; b=2', 'x-forwarded-host': new URL(url).host })
  // The token and the variables of the test are not the editor's.
  const token = cookie.split('=')[1] ?? ''
  expect(token).toMatch(/^[0-9a-f]{64}$/)
  expect(JSON.stringify(state)).not.toContain(token)
  expect(logLines.join()).not.toContain(token)
  const { SLIPWAY_COMMAND: _, ...variables } = state.env
  expect(variables).toEqual({
    PATH: '/usr/bin:/bin',
    HOME: directory,
    SLIPWAY_SERVER: 'marker-of-the-server',
  })
})

test('without the token, with a wrong one and from foreign pages nothing is opened', async () => {
  await writeEditorProgram(directory)
  await using editor = await start()
  const { cookie, url } = await signIn(editor)
  const [name = ''] = cookie.split('=')
  const status = async (path: string, headers: Record<string, string> = {}) =>
    (await fetch(new URL(path, url), { redirect: 'manual', headers })).status
  expect(await status('/')).toBe(401)
  expect(await status('/', { cookie: `${name}=wrong` })).toBe(401)
  expect(await status('/?tkn=wrong')).toBe(403)
  expect(await status('/?tkn=', { cookie })).toBe(403)
  const foreign = { cookie, origin: 'http://localhost:1' }
  expect((await fetch(url, { method: 'POST', headers: foreign })).status).toBe(403)
  expect(await openSocket(url, { cookie })).toEqual([101, 'editor'])
  expect(await openSocket(url, { cookie, origin: new URL(url).origin })).toEqual([101, 'editor'])
  expect(await openSocket(url, foreign)).toEqual([403, ''])
  expect(await openSocket(url, {})).toEqual([401, ''])
  // No path leads to another host.
  const address = new URL(editor.url('/w') ?? '')
  const answer = await fetch(`${address.origin}//evil.example/${address.search}`, { redirect: 'manual' })
  expect(answer.headers.get('location')).toBe('?folder=%2Fw')
})

test.skipIf(!hasIpv6)('no other program can listen at the other address of localhost', async () => {
  await writeEditorProgram(directory)
  {
    await using editor = await start()
    await until(() => editor.isRunning)
    const { port, search } = new URL(editor.url('/w') ?? '')
    expect((await fetch(`http://[::1]:${port}/${search}`, { redirect: 'manual' })).status).toBe(302)
    expect((await fetch(`http://[::1]:${port}/`)).status).toBe(401)
  }
  await using holder = await holdPort('::1')
  await using editor = await start({ port: holder.port })
  await until(() => logLines.some((line) => line.includes('the port is in use')))
  expect(editor.url('/w')).toBe(undefined)
})

test('a base path stands before every path of the editor', async () => {
  await writeEditorProgram(directory)
  await using editor = await start({ basePath: '/team/editor' })
  const { cookie, url } = await signIn(editor)
  expect(new URL(url).pathname).toBe('/team/editor/')
  const state = await readState(url, cookie)
  expect(state.url).toBe('/team/editor/state')
  expect(state.args.slice(-2)).toEqual(['--server-base-path', '/team/editor'])
  expect((await fetch(new URL('/', url), { headers: { cookie } })).status).toBe(401)
  expect(editor.url('/w', 'https://x.example/')).toMatch(/^https:\/\/x\.example\/team\/editor\/\?tkn=/)
})

test('a stop ends the editor and what it has started', async () => {
  await writeEditorProgram(directory)
  const editor = await start()
  const { cookie, url } = await signIn(editor)
  const { pid, child } = await readState(url, cookie)
  expect(await Promise.all([isAlive(pid), isAlive(child)])).toEqual([true, true])
  await editor[Symbol.asyncDispose]()
  expect(await Promise.all([isAlive(pid), isAlive(child)])).toEqual([false, false])
  expect([editor.isRunning, editor.url('/w')]).toEqual([false, undefined])
  await expect(fetch(url)).rejects.toThrow('fetch failed')
})

test('an editor that ends is no longer running', async () => {
  await writeEditorProgram(directory)
  await using editor = await start()
  const { cookie, url } = await signIn(editor)
  const { child } = await readState(url, cookie)
  await fetch(new URL('exit', url), { headers: { cookie } }).catch(() => {})
  await until(() => !editor.isRunning)
  await until(async () => !(await isAlive(child)))
  expect(logLines.join()).toContain('the editor has ended {"exit_code":3')
})

test('an editor that cannot be started leaves a line in the log', async () => {
  await using holder = await holdPort('127.0.0.1')
  const failure = async (settings: Partial<EditorSettings>) => {
    await using editor = await start(settings)
    await until(() => logLines.length > 0)
    expect([editor.isRunning, editor.url('/w')]).toEqual([false, undefined])
    return logLines.splice(0).join()
  }
  expect(await failure({})).toContain('neither openvscode-server nor code-server is on the PATH')
  expect(await failure({ command: '/nothing/here' })).toContain('/nothing/here is no program')
  const program = await writeEditorProgram(directory)
  expect(await failure({ port: holder.port })).toContain('the port is in use')
  await writeFile(program, '#!/bin/sh\necho out of order\nexit 7\n')
  expect(await failure({})).toMatch(/the editor has ended .*"exit_code":7,"output":"out of order/)
  await writeFile(program, '#!/nothing/interpreter\n')
  expect(await failure({})).toContain('could not be started')
})
