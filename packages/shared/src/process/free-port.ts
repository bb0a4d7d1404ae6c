import { once } from 'node:events'
import { createServer } from 'node:net'

/** A TCP port that nothing listened on at 127.0.0.1 a moment ago; another program may take it. */
export async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (typeof address === 'object' && address !== null) return address.port
  throw new Error('the system names no port')
}
