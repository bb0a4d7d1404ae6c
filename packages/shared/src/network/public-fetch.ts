import { lookup } from 'node:dns'
import {
  Agent,
  type AgentOptions,
  globalAgent,
  type IncomingMessage,
  request as requestHttp,
} from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
import { isPublicAddress, lookupPublic, PrivateAddressError } from './public-address.ts'

/**
 * `fetch` for addresses that others name: the connection goes to the public address that was checked, or to
 * the proxy of the environment, which resolves names itself, or nowhere. Follows no redirects, and takes
 * bodies of text only. Rejects with a PrivateAddressError, or the error of the connection.
 */
export async function publicFetch(input: string | URL, init: RequestInit = {}): Promise<Response> {
  const host = hostOf(new URL(input))
  // An address is not looked up.
  if (isIP(host) !== 0 && !isPublicAddress(host)) throw new PrivateAddressError(host)
  return await fetchWithLookup(input, init, lookupPublic)
}

/** As `publicFetch`, to the addresses that `lookupTarget` finds for the host. */
export async function fetchWithLookup(
  input: string | URL,
  init: RequestInit,
  lookupTarget: LookupFunction,
): Promise<Response> {
  const url = new URL(input)
  const { method = 'GET', body, signal } = init
  const request = new Request(url, { method, headers: init.headers ?? {}, body: body ?? null })
  const bytes = Buffer.from(await request.arrayBuffer())
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const send = url.protocol === 'https:' ? requestHttps : requestHttp
  const headers = { ...Object.fromEntries(request.headers), 'accept-encoding': 'identity' }
  // Undefined unless Node was told to use the proxies of the environment (`NODE_USE_ENV_PROXY`).
  const { proxyEnv } = (globalAgent as Agent & { readonly options: AgentOptions }).options
  const agent = url.protocol === 'https:' ? new HttpsAgent({ proxyEnv }) : new Agent({ proxyEnv })
  const host = hostOf(url)
  // Another name is that of the proxy.
  const lookupHost: LookupFunction = (name, ...rest) => (name === host ? lookupTarget : lookup)(name, ...rest)
  const options = { method, headers, agent, lookup: lookupHost, ...(signal && { signal }) }
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

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}

/** Whether a host is named as one of this machine or its network, so that its user has chosen that. */
export function isLocalHost(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0) return !isPublicAddress(host)
  return !host.includes('.') || /\.(?:localhost|local|internal|lan|home\.arpa)$/.test(host)
}
