import { connect, type Socket } from 'node:net'
import { serveParent } from './processes.ts'

/**
 * `count` GET requests over some connections, cycling through the paths, one at a time on each connection.
 */
export interface LoadRequest {
  readonly port: number
  readonly paths: readonly string[]
  readonly count: number
  readonly connections: number
}

export interface LoadResult {
  /** Of the bodies. */
  readonly bytes: number
  /** Of each request, from its first byte sent to the last byte received, in order of completion. */
  readonly latenciesMs: Float64Array
}

/** Load client on raw sockets: counts bodies without parsing them, so it costs less than any server. */
serveParent(async (load: LoadRequest): Promise<LoadResult> => {
  const run = { next: 0, done: 0, bytes: 0, latenciesMs: new Float64Array(load.count) }
  await Promise.all(Array.from({ length: load.connections }, () => runConnection(load, run)))
  return { bytes: run.bytes, latenciesMs: run.latenciesMs }
})

interface LoadProgress {
  next: number
  done: number
  bytes: number
  readonly latenciesMs: Float64Array
}

function runConnection(load: LoadRequest, run: LoadProgress): Promise<void> {
  return new Promise((resolve, reject) => {
    let head = ''
    let remainingBytes = 0
    let startedAt = 0
    const socket: Socket = connect({
      host: '127.0.0.1',
      port: load.port,
      noDelay: true,
      onread: {
        buffer: Buffer.allocUnsafe(256 * 1024),
        callback: (size, buffer) => {
          onData(size, Buffer.from(buffer.buffer, buffer.byteOffset, size))
          return true
        },
      },
    })
    const sendNext = () => {
      if (run.next >= load.count) return socket.end(resolve)
      const path = load.paths[run.next++ % load.paths.length]
      startedAt = performance.now()
      return socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${load.port}\r\n\r\n`)
    }
    const onData = (size: number, chunk: Buffer) => {
      if (remainingBytes > 0) remainingBytes -= size
      else {
        head += chunk.toString('latin1')
        const end = head.indexOf('\r\n\r\n')
        if (end === -1) return
        const length = bodyLength(head.slice(0, end))
        if (length === undefined) return socket.destroy(new Error(`unexpected reply: ${head.slice(0, 500)}`))
        run.bytes += length
        remainingBytes = length - (head.length - end - 4)
        head = ''
      }
      if (remainingBytes > 0) return
      run.latenciesMs[run.done++] = performance.now() - startedAt
      sendNext()
    }
    socket.on('connect', sendNext)
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('the server closed a connection')))
  })
}

function bodyLength(head: string): number | undefined {
  if (!head.startsWith('HTTP/1.1 200 ')) return undefined
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  return length === undefined ? undefined : Number(length)
}
