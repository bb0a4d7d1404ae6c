import { randomUUID } from 'node:crypto'
import { createFrame, type SocketRequest, type SocketRoute } from '@slipway/http'
import { bashSocketQuery, executeBashRequest, formatInstant, Problem } from '@slipway/protocol'
import type { Activity } from '../../core/server/activity.ts'
import { parseFrame } from '../../core/streams/parse-frame.ts'
import type { BashService } from './bash-service.ts'

interface BashSocketOptions {
  readonly bash: BashService
  readonly activity: Activity
  readonly now: () => number
}

/** Open sockets of the whole server; one more is closed. */
const maxSockets = 50
const tryLaterCode = 1013

/**
 * `/sockets/bash-events`: each event when it is stored, once and in order; with `resend_mode=all` also the
 * earlier ones. A text frame of the client starts a command; an invalid one gets a BashError.
 */
export function bashSocket({ bash, activity, now }: BashSocketOptions): SocketRoute {
  let openSockets = 0
  return {
    path: '/sockets/bash-events',
    accepts: (request) => parseQuery(request) !== undefined,
    async serve(socket, request) {
      if (openSockets >= maxSockets) return socket.close(tryLaterCode, 'Too many bash event connections')
      const query = parseQuery(request)
      const all = query?.resend_mode === 'all' || query?.resend_all === true
      socket.onMessage(async (text) => {
        try {
          const command = parseFrame(
            executeBashRequest,
            text,
            'The frame is not a command: {"command":"..."}',
          )
          activity.record()
          await bash.start(command)
        } catch (error) {
          if (!(error instanceof Problem)) throw error
          await socket.send([createFrame(Buffer.from(JSON.stringify(errorEvent(error, now()))))])
        }
      })
      openSockets += 1
      try {
        for await (const lines of bash.events.tail({ all, signal: socket.signal })) {
          await socket.send(lines.map((line) => createFrame(line)))
        }
      } finally {
        openSockets -= 1
      }
    },
  }
}

function parseQuery(request: SocketRequest) {
  const query = bashSocketQuery.safeParse(request.query)
  return query.success ? query.data : undefined
}

function errorEvent({ code, message }: Problem, now: number) {
  const id = randomUUID().replaceAll('-', '')
  const name = code === 'invalid' ? 'ValidationError' : code
  return { id, timestamp: formatInstant(now), code: name, detail: message, kind: 'BashError' }
}
