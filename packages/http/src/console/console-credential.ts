import { hash, randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { consoleProofHeader, consoleProofQuery } from '@slipway/protocol'
import { cookieValues } from '../core/cookies.ts'

const cookiePrefix = 'slipway_console_'
const keyPrefix = 'slipway-console-'
const proofHeader = consoleProofHeader.toLowerCase()
const safeMethods = new Set(['GET', 'HEAD', undefined])

/**
 * A session of a page in two halves, because neither is safe alone: browsers send the cookie to every port of
 * the host, and scripts read the proof. Together they are the key of the session, which is nowhere stored.
 */
interface ConsoleCredential {
  readonly cookieName: string
  readonly cookie: string
  readonly proof: string
  readonly key: string
}

export function createConsoleCredential(): ConsoleCredential {
  const cookie = randomBytes(32).toString('base64url')
  const proof = `${tagOf(cookie)}.${randomBytes(32).toString('base64url')}`
  return { cookieName: cookiePrefix + tagOf(cookie), cookie, proof, key: deriveKey(cookie, proof) }
}

/** Whether a key is that of a console session. */
export function isConsoleKey(key: string): boolean {
  return key.startsWith(keyPrefix)
}

/** The name of the cookie of a proof; undefined for a text of another form. */
export function consoleCookieName(proof: string): string | undefined {
  const tag = /^([0-9a-f]{16})\./.exec(proof)?.[1]
  return tag === undefined ? undefined : cookiePrefix + tag
}

/**
 * Gives a request of a signed-in page the key of its session as `X-Session-API-Key`. A request that has a key
 * of its own, comes from a page of another origin, or has only one half stays as it is. Whether the session
 * exists, and what it may do, is decided where keys are.
 */
export function acceptConsoleSession(raw: IncomingMessage, isUpgrade: boolean): void {
  const { headers, method } = raw
  if (headers.cookie?.includes(cookiePrefix) !== true) return
  const proof = headers[proofHeader] ?? (safeMethods.has(method) ? proofInQuery(raw) : undefined)
  if (typeof proof !== 'string' || headers['x-session-api-key'] !== undefined) return
  if (headers.authorization !== undefined || headers['x-access-token'] !== undefined) return
  if (!isOwnPage(raw, isUpgrade)) return
  const cookie = findCookie(headers.cookie, proof)
  if (cookie !== undefined) headers['x-session-api-key'] = deriveKey(cookie, proof)
}

/** Removes the proof from the query: what the server logs, forwards or remembers has none. */
function proofInQuery(raw: IncomingMessage): string | undefined {
  const { url = '' } = raw
  const match = new RegExp(`[?&]${consoleProofQuery}=([\\w.%-]*)`).exec(url)
  if (match === null) return undefined
  const rest = url.slice(0, match.index) + url.slice(match.index + match[0].length)
  raw.url = url[match.index] === '?' ? rest.replace('&', '?') : rest
  return match[1]
}

/**
 * Whether a page of the server's own origin sends this, or the user typed the address. Browsers that do not
 * say name the origin with everything that acts; the guard compares it.
 */
function isOwnPage({ headers, method }: IncomingMessage, isUpgrade: boolean): boolean {
  const isReading = safeMethods.has(method) && !isUpgrade
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin' || (site === 'none' && isReading)
  return isReading || headers.origin !== undefined
}

/**
 * Another port of the host can set cookies of this name, so only the one that the proof belongs to counts.
 */
function findCookie(header: string, proof: string): string | undefined {
  const name = consoleCookieName(proof)
  if (name === undefined) return undefined
  return cookieValues(header, name).find((value) => name === cookiePrefix + tagOf(value))
}

function tagOf(cookie: string): string {
  return hash('sha256', cookie).slice(0, 16)
}

function deriveKey(cookie: string, proof: string): string {
  return keyPrefix + hash('sha256', `${cookie}\n${proof}`, 'base64url')
}

/** The headers without what belongs to console sessions of this server. */
export function withoutConsoleSession(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { [proofHeader]: _, cookie, 'x-session-api-key': key, ...rest } = headers
  const cookies = (cookie ?? '').split(/; */).filter((pair) => pair !== '' && !pair.startsWith(cookiePrefix))
  return {
    ...rest,
    ...(cookies.length === 0 ? {} : { cookie: cookies.join('; ') }),
    ...(key === undefined || isConsoleKey(String(key)) ? {} : { 'x-session-api-key': key }),
  }
}
