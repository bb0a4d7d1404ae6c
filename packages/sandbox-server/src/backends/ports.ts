import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below the ports that systems give to outgoing connections. */
const firstPort = 20_000
const lastPort = 32_000

/** A port of loopback on which nothing listens, and that is not in `reserved`. */
export async function findFreePort(reserved: ReadonlySet<number>): Promise<number> {
  for (let attempt = 0; attempt < 1_000; attempt++) {
    const port = randomInt(firstPort, lastPort)
    if (!reserved.has(port) && (await canListen('127.0.0.1', port))) return port
  }
  throw new Error(`No port between ${firstPort} and ${lastPort} is free`)
}

/** Whether this process can listen there now. */
export async function canListen(host: string, port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const server = createServer().once('error', () => resolve(false))
  server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)))
  return await promise
}
