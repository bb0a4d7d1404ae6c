import { connect, type Socket } from 'node:net'
import { serveParent } from './processes.ts'
import { FrameCounter } from './websocket-frames.ts'

/**
 * Opens sockets and replies when all of them are open; or waits until each of them has received `frames` more
 * frames.
 */
export type SubscribeRequest =
  | {
      readonly do: 'open'
      readonly port: number
      readonly path: string
      readonly count: number
      readonly greeting: number
    }
  | { readonly do: 'wait'; readonly frames: number }

/** Subscribers on raw sockets that count frames by their headers without parsing them. */
const sockets: Socket[] = []
let receivedFrames = 0
let expectedFrames = 0
let onArrival = () => {}

serveParent(async (question: SubscribeRequest) => {
  if (question.do === 'wait') return await waitForFrames(question.frames)
  const { port, path, count, greeting } = question
  await Promise.all(Array.from({ length: count }, () => openSocket(port, path)))
  await waitForFrames(greeting)
})

/** Resolves when every socket has received this many frames since the last wait. */
async function waitForFrames(frames: number): Promise<void> {
  expectedFrames += frames * sockets.length
  await new Promise<void>((resolve) => {
    onArrival = resolve
    if (receivedFrames >= expectedFrames) resolve()
  })
  if (receivedFrames > expectedFrames) throw new Error(`${receivedFrames - expectedFrames} frames too many`)
}

function openSocket(port: number, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port })
    let head: string | undefined = ''
    const frames = new FrameCounter()
    socket.on('data', (chunk) => {
      if (head !== undefined) {
        head += chunk.toString('latin1')
        const end = head.indexOf('\r\n\r\n')
        if (end === -1) return
        if (!head.startsWith('HTTP/1.1 101 '))
          return socket.destroy(new Error(`no upgrade: ${head.slice(0, 300)}`))
        chunk = Buffer.from(head.slice(end + 4), 'latin1')
        head = undefined
        sockets.push(socket)
        resolve()
      }
      receivedFrames += frames.count(chunk)
      if (receivedFrames >= expectedFrames) onArrival()
    })
    socket.on('error', reject)
    socket.on('close', () => process.exit(1))
    socket.write(
      `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n` +
        'sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
    )
  })
}
