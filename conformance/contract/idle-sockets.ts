import { readFile } from 'node:fs/promises'
import { WebSocket } from 'ws'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import type { Guarantee } from './guarantee.ts'

/** Sockets of one round. */
const socketsPerRound = 10

/** Sockets of one conversation, below the default limit. */
const socketsPerConversation = 1000

/** Many idle sockets; then one message to each conversation. */
export const idleSockets: Guarantee = {
  promise: 'Ten thousand idle sockets are held, and each of them receives the next event.',
  round: `opens ${socketsPerRound} sockets`,
  async run(rounds) {
    await using server = await OwnAgentServer.open()
    const before = await residentMegabytes(server.pid)
    const url = `${server.url.replace(/^http/, 'ws')}/sockets/events`
    const ids: string[] = []
    const sockets: WebSocket[] = []
    let received = 0
    const count = rounds * socketsPerRound
    let onAll = () => {}
    const all = new Promise<void>((resolve) => (onAll = resolve))
    try {
      for (let opened = 0; opened < count; opened += 100) {
        if (opened % socketsPerConversation === 0) ids.push(await server.api.import(''))
        await Promise.all(
          Array.from({ length: Math.min(100, count - opened) }, async () => {
            const socket = new WebSocket(`${url}/${ids.at(-1)}`, { perMessageDeflate: false })
            sockets.push(socket)
            socket.on('message', (data) => {
              if (String(data).includes('To all of you') && ++received === count) onAll()
            })
            await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
          }),
        )
      }
      const after = await residentMegabytes(server.pid)
      for (const id of ids)
        await server.api.sendJson('POST', `/api/conversations/${id}/events`, {
          content: [{ type: 'text', text: 'To all of you' }],
        })
      const limit = AbortSignal.timeout(120_000)
      await Promise.race([
        all,
        new Promise(
          (_, reject) => (limit.onabort = () => reject(new Error(`${received} of ${count} received it`))),
        ),
      ])
      return { sockets: count, received, 'server MB before': before, 'server MB with sockets': after }
    } finally {
      for (const socket of sockets) socket.terminate()
    }
  },
}

/** Memory of a process in MB. */
export async function residentMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024)
}
