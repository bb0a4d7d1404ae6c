import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { findFreePort } from './free-port.ts'

test('a port is free, and can be listened on', async () => {
  const port = await findFreePort()
  expect(port).toBeGreaterThan(0)
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  server.close()
})
