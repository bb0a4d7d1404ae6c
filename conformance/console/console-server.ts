import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'

/** What the servers send with the page: nothing inline runs, and nothing leaves the origin. */
export const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}

export interface ConsoleServer extends AsyncDisposable {
  /** The address of the console, with the path and without a slash at its end. */
  readonly url: string
  /** The agent server or sandbox server behind; may be set again after a restart. */
  target: string
}

/** Serves the bundle below a path, and forwards everything else to a server, as the servers do themselves. */
export async function serveConsole(bundle: string, target: string, path = ''): Promise<ConsoleServer> {
  const server = createServer(async (incoming, outgoing) => {
    const url = incoming.url ?? '/'
    if (!url.startsWith(`${path}/`)) return void outgoing.writeHead(404).end()
    const local = url.slice(path.length)
    const [name = '/'] = local.split('?', 1)
    const isAsset = /^\/(?:assets\/[\w.-]+|icon\.svg)$/.test(name)
    const isPage = incoming.method === 'GET' && (incoming.headers.accept ?? '').includes('text/html')
    if (isAsset) {
      const bytes = await readFile(join(bundle, name)).catch(() => undefined)
      const type = types[extname(name)] ?? 'application/octet-stream'
      return void outgoing.writeHead(bytes ? 200 : 404, { 'content-type': type }).end(bytes)
    }
    if (isPage) {
      const html = await readFile(join(bundle, 'index.html'), 'utf8')
      const base = '../'.repeat(name.split('/').length - 2) || './'
      const headers = { 'content-type': 'text/html', 'content-security-policy': contentSecurityPolicy }
      return void outgoing.writeHead(200, headers).end(html.replace('<head>', `<head><base href="${base}">`))
    }
    const upstream = request(
      new URL(local, console_.target),
      {
        method: incoming.method,
        headers: { ...incoming.headers, host: new URL(console_.target).host, origin: '' },
      },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(outgoing)
        answer.on('error', () => outgoing.destroy())
      },
    )
    upstream.removeHeader('origin')
    upstream.on('error', () => outgoing.destroy())
    outgoing.on('close', () => upstream.destroy())
    incoming.pipe(upstream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const console_: ConsoleServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    target,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return console_
}
