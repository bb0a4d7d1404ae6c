import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A reverse proxy of a test's own: it shows a server below a path of its address. */
export interface Front extends AsyncDisposable {
  /** With the path, without a slash at its end. */
  readonly url: string
  /** Where it sends what comes; may be set later. */
  target: string
  /** What has come through it: methods and addresses as the proxy saw them. */
  readonly seen: readonly string[]
}

/** `strips`: the target is asked without the path, as many proxies are set up; otherwise with it. */
export async function openFront(
  path: string,
  options: { readonly strips: boolean; readonly port?: number },
): Promise<Front> {
  const seen: string[] = []
  const sockets = new Set<{ destroy(): void }>()
  const addressOf = (raw: IncomingMessage) => {
    seen.push(`${raw.method} ${raw.url}`)
    const inner = raw.url?.startsWith(`${path}/`) ? raw.url.slice(path.length) : undefined
    return inner === undefined ? undefined : new URL(options.strips ? inner : String(raw.url), front.target)
  }
  const server = createServer((raw, res) => {
    const url = addressOf(raw)
    if (url === undefined) return void res.writeHead(404).end('nothing of ours')
    const onward = request(url, { method: raw.method, headers: raw.headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(res)
    })
    onward.on('error', () => res.destroy())
    raw.pipe(onward)
  })
  server.on('upgrade', (raw, net, head) => {
    const url = addressOf(raw)
    net.on('error', () => net.destroy())
    if (url === undefined) return void net.destroy()
    const onward = request(url, { headers: raw.headers })
    onward.on('error', () => net.destroy())
    onward.on('response', (answer) => {
      net.end(`HTTP/1.1 ${answer.statusCode} Refused\r\nconnection: close\r\n\r\n`)
      answer.resume()
    })
    onward.on('upgrade', (answer, inner, first) => {
      const lines = answer.rawHeaders.flatMap((name, at, all) =>
        at % 2 === 0 ? [`${name}: ${all[at + 1]}`] : [],
      )
      net.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`)
      net.write(first)
      inner.write(head)
      inner.on('error', () => net.destroy())
      inner.pipe(net).pipe(inner)
      net.on('close', () => inner.destroy())
    })
    onward.end()
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(options.port ?? 0, '127.0.0.1')
  await once(server, 'listening')
  const front: Front = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    target: '',
    seen,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
  return front
}
