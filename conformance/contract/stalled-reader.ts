import { connect, type Socket } from 'node:net'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../support/agent-server-api.ts'
import type { Guarantee } from './guarantee.ts'
import { residentMegabytes } from './idle-sockets.ts'

const eventBytes = 10_000_000

/** Readers of a large export that stop reading. */
export const stalledReaders: Guarantee = {
  promise: 'Readers that stand still hold little memory and delay no other request.',
  round: 'a reader of an export of 50 MB that reads nothing',
  share: 0.01,
  async run(rounds) {
    await using server = await OwnAgentServer.open()
    const id = await server.api.import(
      toJsonLines(
        ...Array.from({ length: 5 }, (_, at) =>
          messageLine(`e${at}`, '2026-01-01T00:00:00Z', 'x'.repeat(eventBytes)),
        ),
      ),
    )
    const before = await residentMegabytes(server.pid)
    const readers: Socket[] = []
    try {
      for (let n = 0; n < rounds; n++)
        readers.push(await openStalledReader(server.url, `/api/conversations/${id}/export`))
      const other = await server.api.import('')
      for (let n = 0; n < 50; n++)
        expect(
          (await server.api.sendJson('POST', `/api/conversations/${other}/events`, { content: `${n}` }))
            .status,
        ).toBe(200)
      const after = await residentMegabytes(server.pid)
      return {
        readers: rounds,
        'server MB before': before,
        'server MB with stalled readers': after,
        'messages refused': 0,
      }
    } finally {
      for (const reader of readers) reader.destroy()
    }
  },
}

/** Resolves when the answer has begun; nothing more is read. */
async function openStalledReader(url: string, path: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\n\r\n`)
  await new Promise((resolve) => socket.once('data', resolve))
  socket.pause()
  return socket
}
