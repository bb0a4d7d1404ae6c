import { createServer } from 'node:net'

/** A loopback port below the ephemeral range, so that it is still free after a restart. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 7_000)
    const server = createServer()
    const isFree = await new Promise((resolve) => {
      server.once('error', () => resolve(false))
      server.listen({ port, host: '127.0.0.1' }, () => server.close(() => resolve(true)))
    })
    if (isFree) return port
  }
}
