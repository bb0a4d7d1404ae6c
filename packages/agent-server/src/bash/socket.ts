import { randomUUID } from 'node:crypto'
import { createFrame, type SocketRequest, type SocketRoute } from '@slipway/http'
import { bashSocketQuery, executeBashRequest, formatInstant, invalidInput, Problem } from '@slipway/protocol'
import type { Activity } from '../server/activity.ts'
import type { BashService } from './bash-service.ts'

interface BashSocketOptions {
  readonly bash: BashService
  readonly activity: Activity
  readonly now: () => number
}

/**
 * `/sockets/bash-events`: each command and each piece of output as it is kept, once and in order; with `resend_mode=all` those
 * that are kept already first. A text frame of the client starts a command; one that cannot be taken is answered with a
 * BashError.
 */
export function bashSocket({ bash, activity, now }: BashSocketOptions): SocketRoute {
  return {
    path: '/sockets/bash-events',
    accepts: (request) => parseQuery(request) !== undefined,
    async serve(socket, request) {
      const query = parseQuery(request)
      const all = query?.resend_mode === 'all' || query?.resend_all === true
      socket.onMessage(async (text) => {
        const error = await startCommand(bash, text, activity)
        if (error !== undefined)
          await socket.send([createFrame(Buffer.from(JSON.stringify(errorEvent(error, now()))))])
      })
      for await (const lines of bash.events.tail({ all, signal: socket.signal })) {
        await socket.send(lines.map((line) => createFrame(line)))
      }
    },
  }
}

function parseQuery(request: SocketRequest) {
  const query = bashSocketQuery.safeParse(request.query)
  return query.success ? query.data : undefined
}

/** Starts what a frame says; a Problem when that cannot be. */
async function startCommand(
  bash: BashService,
  text: string,
  activity: Activity,
): Promise<Problem | undefined> {
  try {
    const request = executeBashRequest.safeParse(parseJson(text))
    if (!request.success) throw invalidInput(['frame'], 'The frame is not a command: {"command":"..."}')
    activity.record()
    await bash.start(request.data)
    return undefined
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalidInput(['frame'], 'The frame is not valid JSON', 'json_invalid')
  }
}

function errorEvent({ code, message }: Problem, now: number) {
  const id = randomUUID().replaceAll('-', '')
  const name = code === 'invalid' ? 'ValidationError' : code
  return { id, timestamp: formatInstant(now), code: name, detail: message, kind: 'BashError' }
}
