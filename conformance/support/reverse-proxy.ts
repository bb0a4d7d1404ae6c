import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A reverse proxy that serves a server below a path. */
export interface ReverseProxy extends AsyncDisposable {
  /** With the path, without a slash at its end. */
  readonly url: string
  /** Where it forwards requests; may be set later. */
  target: string
  /** Methods and addresses of its requests. */
  readonly requests: readonly string[]
}

/** `strips`: the target receives the address without the path, as with many proxies; otherwise with it. */
export async function openReverseProxy(
  path: string,
  options: { readonly strips: boolean; readonly port?: number; readonly refusesSockets?: boolean },
): Promise<ReverseProxy> {
  const requests: string[] = []
  const sockets = new Set<{ destroy(): void }>()
  const targetUrl = (raw: IncomingMessage) => {
    requests.push(`${raw.method} ${raw.url}`)
    const upstreamSocket = raw.url?.startsWith(`${path}/`) ? raw.url.slice(path.length) : undefined
    return upstreamSocket === undefined
      ? undefined
      : new URL(options.strips ? upstreamSocket : String(raw.url), proxy.target)
  }
  const server = createServer((raw, res) => {
    const url = targetUrl(raw)
    if (url === undefined) return void res.writeHead(404).end('nothing of ours')
    const upstream = request(url, { method: raw.method, headers: raw.headers }, (upstreamResponse) => {
      res.writeHead(upstreamResponse.statusCode ?? 502, upstreamResponse.headers)
      upstreamResponse.pipe(res)
    })
    upstream.on('error', () => res.destroy())
    raw.pipe(upstream)
  })
  server.on('upgrade', (raw, net, head) => {
    const url = targetUrl(raw)
    net.on('error', () => net.destroy())
    if (url === undefined || options.refusesSockets) return void net.destroy()
    const upstream = request(url, { headers: raw.headers })
    upstream.on('error', () => net.destroy())
    upstream.on('response', (upstreamResponse) => {
      net.end(`HTTP/1.1 ${upstreamResponse.statusCode} Refused\r\nconnection: close\r\n\r\n`)
      upstreamResponse.resume()
    })
    upstream.on('upgrade', (upstreamResponse, upstreamSocket, first) => {
      const lines = upstreamResponse.rawHeaders.flatMap((name, at, all) =>
        at % 2 === 0 ? [`${name}: ${all[at + 1]}`] : [],
      )
      net.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`)
      net.write(first)
      upstreamSocket.write(head)
      upstreamSocket.on('error', () => net.destroy())
      upstreamSocket.pipe(net).pipe(upstreamSocket)
      net.on('close', () => upstreamSocket.destroy())
    })
    upstream.end()
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(options.port ?? 0, '127.0.0.1')
  await once(server, 'listening')
  const proxy: ReverseProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    target: '',
    requests,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
  return proxy
}
