import { once } from 'node:events'
import { WebSocket } from 'ws'
import { serveParent } from './processes.ts'

/** Opens sockets that answer pings and send nothing; replies when all are open. */
export interface IdleRequest {
  readonly port: number
  /** One socket is opened at each, in turn. */
  readonly paths: readonly string[]
  readonly count: number
}

const maxOpening = 200

serveParent(async ({ port, paths, count }: IdleRequest) => {
  for (let opened = 0; opened < count; opened += maxOpening) {
    const opening = Array.from({ length: Math.min(maxOpening, count - opened) }, (_, at) => {
      const path = paths[(opened + at) % paths.length]
      const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { perMessageDeflate: false })
      socket.on('close', () => process.exit(1))
      return once(socket, 'open')
    })
    await Promise.all(opening)
  }
})
