import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { findForeignListener, parseListeners } from './loopback-listener.ts'

test('listening sockets are read from the tables of the kernel, other states are left out', () => {
  const v4 = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F41 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 100 0 0 10 0
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0`
  const v6 = `  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F40 00000000000000000000000000000000:0000 0A 0:0 00:0 0  7  0 4 1
   1: 00000000000000000000000000000000:1F42 00000000000000000000000000000000:0000 0A 0:0 00:0 0  8  0 5 1
   2: 0000000000000000FFFF00000100007F:1F43 00000000000000000000000000000000:0000 0A 0:0 00:0 0  9  0 6 1`
  expect([...parseListeners(v4), ...parseListeners(v6), ...parseListeners('')]).toEqual([
    { address: '127.0.0.1', port: 8000, user: 1000 },
    { address: '0.0.0.0', port: 80, user: 0 },
    { address: '::1', port: 8000, user: 7 },
    { address: '::', port: 8002, user: 8 },
    { address: '127.0.0.1', port: 8003, user: 9 },
  ])
})

test('what the own user listens on is not foreign', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  expect(await findForeignListener(`http://localhost:${port}`)).toBeUndefined()
})
