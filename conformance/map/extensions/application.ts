import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { expect } from 'vitest'
import { expectAnswer } from '../answers.ts'
import type { Json, MapClient } from '../map-server.ts'

export const applicationsPath = '/api/canvas-extensions'

export interface BackendStatus extends Json {
  readonly state: string
  readonly revision: string
  readonly prepared_revision: string | null
  readonly pid: number
  readonly port: number
  readonly detail: string | null
}

/** The program of most cases: `argv` is its port and the folder of its data. */
const program = `#!${process.execPath}
const http = require('node:http')
const { spawn } = require('node:child_process')
let delay = 0
const server = http.createServer((request, response) => {
  const url = new URL(request.url, 'http://program')
  if (url.pathname === '/exit') process.exit(0)
  if (url.pathname === '/slow') delay = 2000
  if (url.pathname === '/fast') delay = 0
  if (url.pathname === '/redirect') return response.writeHead(302, { location: 'https://example.com/' }).end()
  if (url.pathname === '/cookie') response.setHeader('set-cookie', 'upstream=1')
  if (url.pathname === '/fork') {
    const child = spawn('/bin/sleep', ['300'], { stdio: 'inherit' })
    return child.on('spawn', () => response.end(String(child.pid)))
  }
  if (url.pathname === '/health') return setTimeout(() => response.end('ok'), delay)
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
    const { method, headers } = request
    const env = Object.fromEntries(Object.entries(process.env))
    const answer = { method, path: url.pathname, query: url.search, headers, env, cwd: process.cwd() }
    const text = JSON.stringify({ ...answer, data: process.argv[3], body: Buffer.concat(chunks).toString() })
    response.setHeader('content-type', 'application/json')
    response.end(text)
  })
})
server.on('upgrade', (request, net) => {
  net.on('error', () => {})
  const url = new URL(request.url, 'http://program')
  if (url.pathname !== '/ws') return net.end('HTTP/1.1 404 Not Found\\r\\nContent-Length: 0\\r\\n\\r\\n')
  const accept = require('node:crypto').createHash('sha1')
    .update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  const protocol = request.headers['sec-websocket-protocol']
  net.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n' +
    'Sec-WebSocket-Accept: ' + accept + '\\r\\n' +
    (protocol === undefined ? '' : 'Sec-WebSocket-Protocol: ' + protocol.split(',')[0].trim() + '\\r\\n') + '\\r\\n')
  const send = (text) => {
    const bytes = Buffer.from(text)
    const head = bytes.length < 126 ? [0x81, bytes.length] : [0x81, 126, bytes.length >> 8, bytes.length & 255]
    net.write(Buffer.concat([Buffer.from(head), bytes]))
  }
  net.on('data', (data) => {
    if ((data[0] & 15) === 8) return net.end(Buffer.from([0x88, 0]))
    if ((data[0] & 15) !== 1) return
    const length = data[1] & 127
    const mask = data.subarray(2, 6)
    const text = data.subarray(6, 6 + length).map((byte, at) => byte ^ mask[at % 4])
    const { cookie, origin, 'x-session-api-key': key } = request.headers
    send(JSON.stringify({ kind: 'echo', echo: Buffer.from(text).toString(), cookie, origin, key, query: url.search }))
  })
})
server.listen(Number(process.argv[2]), '127.0.0.1')
`

export interface TestApplication {
  readonly name: string
  /** Source text of the program; false: none. */
  readonly program?: string | false
  /** The archive instead of that of the program. */
  readonly archive?: Buffer<ArrayBuffer>
  readonly health?: object
  readonly backend?: object
  readonly manifest?: object
}

/** The files of an application, relative to its folder. */
export function applicationFiles(app: TestApplication): Record<string, string | Buffer<ArrayBuffer>> {
  const { name } = app
  const archive = app.archive ?? tarGz([['run.js', app.program === false ? '' : (app.program ?? program)]])
  const artifact = {
    path: 'backend/linux.tar.gz',
    sha256: createHash('sha256').update(archive).digest('hex'),
  }
  const backend = {
    schema_version: 1,
    artifacts: { 'linux-amd64': artifact, 'linux-arm64': artifact },
    argv: ['{artifact_dir}/run.js', '{port}', '{data_dir}'],
    health: { path: '/health', timeout_seconds: 30, interval_seconds: 0.1, ...app.health },
    ...app.backend,
  }
  const manifest = {
    schema_version: 1,
    name,
    display_name: `Map ${name}`,
    version: '0.1.0',
    entrypoint: 'dist/index.js',
    contributes: { pages: [{ id: name, title: name, path: `/${name}` }] },
    ...(app.program === false ? {} : { backend }),
    ...app.manifest,
  }
  return {
    'canvas-extension.json': JSON.stringify(manifest),
    'dist/index.js': `export const app = '${name}'\n`,
    'assets/icon.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>\n',
    ...(app.program === false ? {} : { 'backend/linux.tar.gz': archive }),
  }
}

/** An archive of regular files. */
export function tarGz(files: readonly (readonly [name: string, text: string])[]): Buffer<ArrayBuffer> {
  const blocks = files.flatMap(([name, text]) => {
    const bytes = Buffer.from(text)
    const head = Buffer.alloc(512)
    const size = bytes.length.toString(8).padStart(11, '0')
    head.write(name, 0)
    head.write('0000755\0', 100)
    head.write('0000000\0', 108)
    head.write('0000000\0', 116)
    head.write(`${size}\0`, 124)
    head.write('00000000000\0', 136)
    head.write('        0', 148)
    head.write('ustar\x0000', 257)
    const sum = head.reduce((total, byte) => total + byte, 0)
    head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    return [head, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]
  })
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]))
}

/** The calls of applications to one server. */
export class Applications {
  readonly #server: MapClient

  constructor(server: MapClient) {
    this.#server = server
  }

  /** Writes the files of an application; returns its folder. */
  async write(app: TestApplication, at = `${this.#server.directory}/${app.name}`): Promise<string> {
    for (const [name, content] of Object.entries(applicationFiles(app)))
      await this.#server.upload(`${at}/${name}`, content)
    return at
  }

  async install<T = Json>(source: string, status = 200, more: object = {}): Promise<T> {
    return await this.ask<T>(status, 'POST', 'install', { source, ...more })
  }

  /** `path` is below `/api/canvas-extensions`. */
  async ask<T = Json>(status: number, method: string, path: string, body?: unknown): Promise<T> {
    const options = body === undefined ? {} : { body }
    return await expectAnswer<T>(this.#server, status, method, `${applicationsPath}/${path}`, options)
  }

  async get(name: string, status = 200): Promise<Json> {
    return await this.ask(status, 'GET', `installed/${name}`)
  }

  /** Undefined verb: the state. */
  async backend(name: string, verb?: 'prepare' | 'start' | 'stop', revision?: string, status = 200) {
    const path = `installed/${name}/backend`
    if (verb === undefined) return await this.ask<BackendStatus>(status, 'GET', path)
    const body = revision === undefined ? undefined : { revision }
    return await this.ask<BackendStatus>(status, 'POST', `${path}/${verb}`, body)
  }

  /** Installs an application and approves its program. */
  async prepare(app: TestApplication): Promise<string> {
    await this.install(await this.write(app))
    const { revision } = await this.backend(app.name)
    expect((await this.backend(app.name, 'prepare', revision)).prepared_revision).toBe(revision)
    return revision
  }

  /** And starts it. */
  async start(app: TestApplication): Promise<BackendStatus> {
    const started = await this.backend(app.name, 'start', await this.prepare(app))
    expect(started).toMatchObject({ state: 'ready', detail: null })
    return started
  }
}

/** Whether a process exists and is no zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  const { readFile } = await import('node:fs/promises')
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  return stat !== undefined && !/\) [ZX] /.test(stat)
}
