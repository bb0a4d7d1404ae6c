import { once } from 'node:events'
import type { Server } from 'node:http'

/** Listens on loopback and prints the address, like the measured server. */
export async function listen(server: Server): Promise<void> {
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  console.log(`http://127.0.0.1:${address.port}`)
  process.once('SIGTERM', () => process.exit())
}
