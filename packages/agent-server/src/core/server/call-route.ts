import type { Reply } from '@slipway/http'
import { buildRoutePath, must, Problem, parseOrThrow, type Route, type RouteTable } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'

/** What a call passes, as a request would have it: texts in `query`, JSON in `body`. */
export interface RouteInput {
  readonly params?: Readonly<Record<string, string>> | undefined
  readonly query?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined
  /** See `Request.caller`. */
  readonly caller?: unknown
  readonly signal: AbortSignal
}

/**
 * Calls a route of this server from within: the same validation, the same handler, and the same way to the
 * server that has the conversation. It checks no key; doors do. Rejects with the Problems of the route.
 */
export type CallRoute = (name: string, input: RouteInput) => Promise<CallAnswer>

export interface CallAnswer {
  readonly json: unknown
  /** What is no JSON, or more than `maxAnswerBytes` of anything, is cut. */
  readonly bytes: Buffer
  readonly contentType: string
  readonly isCut: boolean
}

type AnyHandlers = Readonly<Record<string, ((request: never) => unknown) | undefined>>

/** Longest answer that is kept. */
const maxAnswerBytes = 8 * 1024 ** 2

export function routeCaller(routes: RouteTable, getHandlers: () => AnyHandlers): CallRoute {
  return async (name, { params = {}, query = {}, body, headers = {}, caller, signal }) => {
    const route: Route = must(routes[name], `the route ${name}`)
    const handle = must(getHandlers()[name], `the handler of ${name}`)
    const given = Object.entries(query).flatMap(([key, value]) =>
      [value ?? []].flat().map((one) => [key, one] as const),
    )
    const search =
      given.length === 0 ? '' : `?${new URLSearchParams(given.map(([key, value]) => [key, value]))}`
    const request = {
      params: route.params && parseOrThrow(route.params, params, ['path']),
      query: route.query && parseOrThrow(route.query, definedOnly(query), ['query']),
      body: route.body && parseOrThrow(route.body, body, ['body']),
      ...{ caller, signal, method: route.method, url: buildRoutePath(route, params) + search },
      rawBody: body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body)),
      header: (header: string) =>
        headers[header.toLowerCase()] ??
        (header.toLowerCase() === 'content-type' && body !== undefined ? 'application/json' : undefined),
      peer: () => '',
      peerAddress: () => '',
    }
    return await readReply((await handle(request as never)) as Reply)
  }
}

function definedOnly(query: NonNullable<RouteInput['query']>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined))
}

async function readReply(reply: Reply): Promise<CallAnswer> {
  if ('refusal' in reply) throw reply.refusal
  if ('json' in reply) {
    const answer = { json: reply.json, bytes: Buffer.alloc(0), contentType: 'application/json', isCut: false }
    return assertSuccess(reply.status, answer)
  }
  const { contentType = 'application/json' } = reply
  const { bytes, isCut } =
    'bytes' in reply ? { bytes: reply.bytes, isCut: false } : await readChunks(reply.chunks)
  const json = contentType.startsWith('application/json') ? parseJson(bytes.toString()) : undefined
  return assertSuccess(reply.status, { json, bytes, contentType, isCut })
}

/** A server that has the conversation may have refused with a status. */
function assertSuccess(status = 200, answer: CallAnswer): CallAnswer {
  if (status < 400) return answer
  const { json } = answer
  const detail =
    isRecord(json) && typeof json.detail === 'string' ? json.detail : `It was refused (${status})`
  throw new Problem(status === 404 ? 'not_found' : status === 403 ? 'forbidden' : 'conflict', detail)
}

async function readChunks(
  chunks: AsyncIterable<Buffer | string>,
): Promise<{ bytes: Buffer; isCut: boolean }> {
  const read: Buffer[] = []
  let size = 0
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk)
    read.push(bytes)
    size += bytes.length
    if (size > maxAnswerBytes) break
  }
  return { bytes: Buffer.concat(read).subarray(0, maxAnswerBytes), isCut: size > maxAnswerBytes }
}
