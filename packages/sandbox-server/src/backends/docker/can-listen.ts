import { createServer } from 'node:net'

/** Whether this process can listen there now. */
export async function canListen(host: string, port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const server = createServer().once('error', () => resolve(false))
  server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)))
  return await promise
}
