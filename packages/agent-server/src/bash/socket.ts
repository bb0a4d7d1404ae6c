import { randomUUID } from 'node:crypto'
import { frame, type SocketRequest, type SocketRoute } from '@slipway/http'
import { bashSocketQuery, executeBashRequest, formatInstant, invalid, Problem } from '@slipway/protocol'
import type { Bash } from './bash-service.ts'

interface Parts {
  readonly bash: Bash
  readonly touch: () => void
  readonly now: () => number
}

/**
 * `/sockets/bash-events`: each command and each piece of output as it is kept, once and in order; with `resend_mode=all` those
 * that are kept already first. A text frame of the client starts a command; one that cannot be taken is answered with a
 * BashError.
 */
export function bashSocket({ bash, touch, now }: Parts): SocketRoute {
  return {
    path: '/sockets/bash-events',
    accepts: (request) => parse(request) !== undefined,
    async serve(socket, request) {
      const asked = parse(request)
      const all = asked?.resend_mode === 'all' || asked?.resend_all === true
      socket.onMessage(async (text) => {
        const error = await take(bash, text, touch)
        if (error !== undefined) await socket.send([frame(Buffer.from(JSON.stringify(event(error, now()))))])
      })
      for await (const lines of bash.events.tail({ all, signal: socket.signal })) {
        await socket.send(lines.map((line) => frame(line)))
      }
    },
  }
}

function parse(request: SocketRequest) {
  const query = bashSocketQuery.safeParse(request.query)
  return query.success ? query.data : undefined
}

/** Starts what a frame says; a Problem when that cannot be. */
async function take(bash: Bash, text: string, touch: () => void): Promise<Problem | undefined> {
  try {
    const request = executeBashRequest.safeParse(json(text))
    if (!request.success) throw invalid(['frame'], 'The frame is not a command: {"command":"..."}')
    touch()
    await bash.start(request.data)
    return undefined
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid(['frame'], 'The frame is not valid JSON', 'json_invalid')
  }
}

function event({ code, message }: Problem, now: number) {
  const id = randomUUID().replaceAll('-', '')
  const name = code === 'invalid' ? 'ValidationError' : code
  return { id, timestamp: formatInstant(now), code: name, detail: message, kind: 'BashError' }
}
