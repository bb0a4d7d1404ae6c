import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below the ports that systems give to outgoing connections, so that none of those is in the way. */
const firstPort = 20_000
const lastPort = 32_000

/** A port of loopback on which nobody listens now and that `taken` does not have. */
export async function findFreePort(reserved: ReadonlySet<number>): Promise<number> {
  for (let i = 0; i < 1_000; i++) {
    const port = randomInt(firstPort, lastPort)
    if (!reserved.has(port) && (await isFree(port))) return port
  }
  throw new Error(`No port between ${firstPort} and ${lastPort} is free`)
}

export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)))
  })
}
