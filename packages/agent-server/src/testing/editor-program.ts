import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** What the program says about itself at `/state`. */
export interface EditorProgramState {
  readonly pid: number
  readonly uid: number
  readonly child: number
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Writes a program that takes the flags of the server of VS Code (and those of code-server) and serves on a
 * Unix socket: a page, its state, and a WebSocket that sends one message. It starts a child in a session of
 * its own, as terminals of an editor are. At `/exit` it ends.
 */
export async function writeEditorProgram(directory: string, name = 'openvscode-server'): Promise<string> {
  const path = join(directory, name)
  await writeFile(path, `#!${process.execPath}\n${source}`)
  await chmod(path, 0o755)
  return path
}

const source = String.raw`
const { createServer } = require('node:http')
const { createHash } = require('node:crypto')
const { spawn } = require('node:child_process')
const args = process.argv.slice(2)
const after = (flag) => args[args.indexOf(flag) + 1]
const isOpen = args.includes('--without-connection-token') || after('--auth') === 'none'
const path = args.includes('--socket-path') ? after('--socket-path') : after('--socket')
if (!isOpen || path === undefined) process.exit(2)
const child = spawn('/bin/sleep', ['300'], { detached: true, stdio: 'ignore' })
const server = createServer((request, response) => {
  const { url, headers } = request
  if (url.endsWith('/exit')) process.exit(3)
  if (!url.endsWith('/state')) return response.end('<h1>editor</h1>')
  const { pid, env } = process
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ pid, uid: process.getuid(), child: child.pid, args, env, url, headers }))
})
server.on('upgrade', ({ headers }, socket) => {
  const magic = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
  const accept = createHash('sha1').update(headers['sec-websocket-key'] + magic).digest('base64')
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n')
  socket.write('Sec-WebSocket-Accept: ' + accept + '\r\n\r\n')
  socket.write(Buffer.concat([Buffer.from([0x81, 6]), Buffer.from('editor')]))
  socket.on('error', () => {})
})
server.listen(path)
`
