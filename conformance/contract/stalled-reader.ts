import { connect, type Socket } from 'node:net'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../support/agent-server-api.ts'
import type { Guarantee } from './guarantee.ts'
import { liveMegabytes, measuredServerEnv } from './live-memory.ts'

const exportBytes = 50_000_000
/** Length of the events of a conversation with few long ones, and of one with many short ones. */
const eventBytes = [10_000_000, 10_000]
/** What a reader that stands still may hold above the event that it reads. */
const bytesAbove = 1024 ** 2
/** What the server may hold besides, for the other requests. */
const slackBytes = 8 * 1024 ** 2

/** Readers of large exports and streams that stop reading. */
export const stalledReaders: Guarantee = {
  promise:
    'Readers that stand still hold at most 1 MiB each above the event that they read, and delay no other request.',
  round: 'four readers of exports and streams of 50 MB, of long and of short events, that read nothing',
  share: 0.01,
  async run(rounds) {
    await using server = await OwnAgentServer.open({ env: measuredServerEnv })
    const ids: string[] = []
    for (const bytes of eventBytes) {
      const lines = Array.from({ length: exportBytes / bytes }, (_, at) =>
        messageLine(`e${at}`, '2026-01-01T00:00:00Z', 'x '.repeat(bytes / 2)),
      )
      ids.push(await server.api.import(toJsonLines(...lines)))
    }
    const before = await liveMegabytes(server)
    const readers: Socket[] = []
    let allowedBytes = slackBytes
    try {
      for (let round = 0; round < rounds; round++)
        for (const [at, id] of ids.entries())
          for (const path of ['export', 'events/stream']) {
            readers.push(await openStalledReader(server.url, `/api/conversations/${id}/${path}`))
            allowedBytes += bytesAbove + (eventBytes[at] ?? 0)
          }
      const other = await server.api.import('')
      for (let n = 0; n < 50; n++)
        expect(
          (
            await server.api.sendJson('POST', `/api/conversations/${other}/events`, {
              content: [{ type: 'text', text: `${n}` }],
            })
          ).status,
        ).toBe(200)
      const after = await liveMegabytes(server)
      expect(after - before, `${readers.length} readers hold MB`).toBeLessThan(allowedBytes / 1024 ** 2)
      return {
        readers: readers.length,
        'server MB before': before,
        'server MB with stalled readers': after,
        'allowed MB above': Math.round(allowedBytes / 1024 ** 2),
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
