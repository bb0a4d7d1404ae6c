import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP } from 'node:net'
import { isPublicAddress, lookupPublic, PrivateAddressError } from '@slipway/shared/network'
import { ToolError } from '../core/tool-failure.ts'

const maxRedirects = 5
const timeoutMs = 30_000

export interface WebAnswer {
  /** After redirects. */
  readonly url: string
  readonly status: number
  readonly contentType: string
  readonly body: Buffer
  /** The body was longer. */
  readonly isCut: boolean
}

interface GetOptions {
  /** `host` or `host:port`: they may be private. */
  readonly allowedHosts: readonly string[]
  readonly maxBytes: number
}

/**
 * A GET request without cookies, credentials and proxies, to public addresses alone: the connection goes to
 * the address that was checked, also after each redirect. Rejects with ToolError, and when `signal` aborts.
 */
export async function guardedGet(
  address: string,
  options: GetOptions,
  signal: AbortSignal,
): Promise<WebAnswer> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  let url = parseAddress(address)
  for (let redirects = 0; ; redirects++) {
    try {
      const response = await get(url, options, limit)
      const { location } = response.headers
      const isRedirect = [301, 302, 303, 307, 308].includes(response.statusCode ?? 0)
      if (!isRedirect || location === undefined) return await readAnswer(url, response, options)
      response.destroy()
      if (redirects === maxRedirects) throw new ToolError(`More than ${maxRedirects} redirects.`)
      url = parseAddress(location, url)
    } catch (error) {
      if (error instanceof ToolError || signal.aborted) throw error
      if (error instanceof PrivateAddressError) throw new ToolError(error.message)
      const reason = limit.aborted ? `no answer within ${timeoutMs / 1000} seconds` : String(error)
      throw new ToolError(`${url.origin} could not be fetched: ${reason}`)
    }
  }
}

function parseAddress(address: string, base?: URL): URL {
  const url = URL.parse(address, base)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new ToolError('The address has to begin with http:// or https://.')
  if (url.username !== '' || url.password !== '')
    throw new ToolError('An address with a user name or a password is not fetched.')
  return url
}

async function get(url: URL, { allowedHosts }: GetOptions, signal: AbortSignal): Promise<IncomingMessage> {
  const isAllowed = allowedHosts.includes(url.host) || allowedHosts.includes(url.hostname)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  // An address is not looked up.
  if (!isAllowed && isIP(host) !== 0 && !isPublicAddress(host)) throw new PrivateAddressError(host)
  const headers = {
    'user-agent': 'slipway-web-fetch',
    accept: 'text/html,text/plain,text/*;q=0.9,*/*;q=0.5',
    'accept-encoding': 'identity',
  }
  const options = { headers, signal, agent: false, ...(isAllowed ? {} : { lookup: lookupPublic }) }
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = (url.protocol === 'https:' ? requestHttps : requestHttp)(url, options, resolve)
  request.on('error', reject)
  request.end()
  return await promise
}

async function readAnswer(url: URL, response: IncomingMessage, { maxBytes }: GetOptions): Promise<WebAnswer> {
  const { 'content-type': contentType = '', 'content-encoding': encoding = 'identity' } = response.headers
  if (encoding !== 'identity') {
    response.destroy()
    throw new ToolError(`${url.origin} answers in the encoding ${encoding}, which was not asked for.`)
  }
  const parts: Buffer[] = []
  let length = 0
  for await (const part of response) {
    parts.push(part)
    length += part.length
    // Leaving the loop ends the connection.
    if (length > maxBytes) break
  }
  const body = Buffer.concat(parts).subarray(0, maxBytes)
  return { url: url.href, status: response.statusCode ?? 0, contentType, body, isCut: length > maxBytes }
}
