import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { systemClock } from '@slipway/shared/time'
import { expect, test } from 'vitest'
import { writeReply } from './reply.ts'

const waiting = { timeout: 30_000, interval: 10 }
const chunkBytes = 16 * 1024 * 1024

async function* bigChunks(count: number): AsyncGenerator<Buffer> {
  for (let i = 0; i < count; i++) yield Buffer.alloc(chunkBytes, String(i))
}

/** A server that answers each request with two large chunks, and the response of the last request. */
async function openServer() {
  let response: ServerResponse | undefined
  const server = createServer((raw, res) => {
    response = res
    const exchange = {
      raw,
      res,
      commonHeaders: {},
      traceHeaders: {},
      lingerMs: 1_000,
      stallMs: 60_000,
      onStall: () => {},
      clock: systemClock,
    }
    void writeReply(exchange, { chunks: bigChunks(2), contentType: 'text/plain' })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // it listens on a port
  return {
    port,
    response: () => response,
    [Symbol.dispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

test('for a client that does not read, less than a MiB of a large chunk is written, and all of it when it reads', async () => {
  using server = await openServer()
  const client = connect(server.port, '127.0.0.1').pause()
  client.write('GET / HTTP/1.0\r\n\r\n')
  await expect.poll(() => server.response()?.writableNeedDrain, waiting).toBe(true)
  expect(server.response()?.writableLength).toBeLessThan(1024 * 1024)
  let received = 0
  for await (const bytes of client) received += bytes.length
  expect(received).toBeGreaterThan(2 * chunkBytes)
})
