import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP } from 'node:net'
import { Readable } from 'node:stream'
import { isPublicAddress, lookupPublic, privateAddressFailure } from './public-address.ts'

/**
 * `fetch` for addresses that others name: the connection goes to the public address that was checked, or
 * nowhere. Follows no redirects, and takes bodies of text only. Rejects with a ToolFailure.
 */
export async function publicFetch(input: string | URL, init: RequestInit = {}): Promise<Response> {
  const url = new URL(input)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  // An address is not looked up.
  if (isIP(host) !== 0 && !isPublicAddress(host)) throw privateAddressFailure(host)
  const { method = 'GET', body, signal } = init
  const request = new Request(url, { method, headers: init.headers ?? {}, body: body ?? null })
  const bytes = Buffer.from(await request.arrayBuffer())
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const send = url.protocol === 'https:' ? requestHttps : requestHttp
  const headers = { ...Object.fromEntries(request.headers), 'accept-encoding': 'identity' }
  const options = { method, headers, agent: false, lookup: lookupPublic, ...(signal && { signal }) }
  send(url, options, resolve).on('error', reject).end(bytes)
  const answer = await promise
  const status = answer.statusCode ?? 500
  const hasBody = method !== 'HEAD' && ![204, 205, 304].includes(status)
  // Node declares two incompatible types of web streams.
  const stream = hasBody ? (Readable.toWeb(answer) as ReadableStream) : null
  if (!hasBody) answer.resume()
  const pairs = Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  )
  return new Response(stream, { status, headers: pairs })
}

/** Whether a host is named as one of this machine or its network, so that its user has chosen that. */
export function isLocalHost(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0) return !isPublicAddress(host)
  return !host.includes('.') || /\.(?:localhost|local|internal|lan|home\.arpa)$/.test(host)
}
