import { createHmac, timingSafeEqual } from 'node:crypto'
import { cookieValues, type PageCredential } from '@slipway/http'
import { Problem } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import type { Secret } from '@slipway/shared/redaction'
import { decodePercent } from '@slipway/shared/url'
import { type PageTokens, peerTokenHeader } from '../../core/peers/page-tokens.ts'

export const cookieName = 'oh_workspace_session_key'

/** How long the cookie of a browser opens workspaces. */
export const sessionSeconds = 7 * 24 * 3_600

/** Longest lifetime of a page token; it stays the same for an hour, so that browser caches work. */
const pageHours = 2

/**
 * The files that a token opens: `session` all of every workspace, `ticket` those at `path` of a conversation,
 * `page` the embeddable ones there.
 */
export type Grant =
  | { readonly use: 'session'; readonly origin?: string; readonly peer?: string }
  | { readonly use: 'ticket' | 'page'; readonly conversation: string; readonly path: string }

/** A grant, until when it holds, and the session key that it was made with. */
interface SignedToken {
  readonly grant: Grant
  /** Seconds. */
  readonly until: number
  /** Names the session key; empty on a server without keys. */
  readonly key: string
}

interface PresentedToken {
  readonly token: SignedToken
  readonly text: string
  readonly isInUrl: boolean
}

interface WorkspaceTicketsOptions {
  readonly key: Buffer
  readonly sessionKeys: readonly Secret[]
  readonly now: () => number
}

/**
 * Signed tokens that open workspace files only. A token contains no session key and is invalid without the
 * one that it was made with. Nothing is stored.
 */
export class WorkspaceTickets implements PageTokens {
  readonly #options: WorkspaceTicketsOptions
  /** Digests that name the session keys. */
  readonly #keyNames: readonly string[]

  constructor(options: WorkspaceTicketsOptions) {
    this.#options = options
    const { sessionKeys } = options
    this.#keyNames =
      sessionKeys.length === 0 ? [''] : sessionKeys.map((key) => this.#deriveKeyName(key.reveal()))
  }

  /**
   * Cookie value for a page of this origin that sent this session key. Only its peer can use it: browsers
   * send a cookie to all ports of a host, and so to programs of other users.
   */
  createSessionToken(
    providedKey: string | undefined,
    origin: string | undefined,
    peer: string | undefined,
  ): string {
    const grant: Grant = { use: 'session', ...definedMembers({ origin: origin?.toLowerCase(), peer }) }
    return this.#sign({ grant, until: this.#nowSeconds() + sessionSeconds, key: this.#keyName(providedKey) })
  }

  createTicket(
    providedKey: string | undefined,
    { conversation, path, seconds }: { conversation: string; path: string; seconds: number },
  ): { readonly text: string; readonly expiresAtMs: number } {
    const until = this.#nowSeconds() + seconds
    const text = this.#sign({
      grant: { use: 'ticket', conversation, path },
      until,
      key: this.#keyName(providedKey),
    })
    return { text, expiresAtMs: until * 1000 }
  }

  /** Token for the files in the folder of a page, which it loads. A ticket stays the same. */
  createPageToken(
    presented: PresentedToken | undefined,
    providedKey: string | undefined,
    page: { readonly conversation: string; readonly path: string },
  ): string {
    if (presented !== undefined && presented.token.grant.use !== 'session') return presented.text
    const until = (Math.floor(this.#nowSeconds() / 3_600) + pageHours) * 3_600
    const key = presented?.token.key ?? this.#keyName(providedKey)
    return this.#sign({ grant: { use: 'page', ...page }, until, key })
  }

  /**
   * The token of a request for the server that it is passed on to, whose session keys may be others;
   * undefined without one. Throws a Problem for an invalid ticket.
   */
  createPeerToken(
    url: string,
    header: (name: string) => string | undefined,
    peer: () => string,
  ): string | undefined {
    const presented = this.findToken(url, header, peer)
    if (presented instanceof Problem) throw presented
    return presented && `${presented.text}.${this.#peerSignature(presented.text).toString('base64url')}`
  }

  /**
   * What another server passes on, else the ticket in the URL, else the cookie, but not for scripts. A
   * Problem for an invalid ticket.
   */
  findToken(
    url: string,
    header: (name: string) => string | undefined,
    peer: () => string,
  ): PresentedToken | Problem | undefined {
    const peerToken = header(peerTokenHeader)
    if (peerToken !== undefined) return this.#verifyPeerToken(peerToken) ?? invalidTicket()
    const ticket = findTicket(url)
    if (ticket !== undefined) {
      const token = this.#verify(ticket)
      if (token === undefined || token.grant.use === 'session') return invalidTicket()
      return { token, text: ticket, isInUrl: true }
    }
    if (isExecutableDestination(header('sec-fetch-dest'))) return undefined
    for (const text of cookieValues(header('cookie'), cookieName)) {
      const token = this.#verify(text)
      if (token?.grant.use !== 'session') continue
      if (token.grant.peer === undefined || token.grant.peer === peer())
        return { token, text, isInUrl: false }
    }
    return undefined
  }

  /** The same for admission; the handler checks which file the token opens. */
  authenticate(
    url: string,
    header: (name: string) => string | undefined,
    peer: () => string,
  ): PageCredential | Problem | undefined {
    const presented = this.findToken(url, header, peer)
    if (presented === undefined || presented instanceof Problem) return presented
    const { grant } = presented.token
    return { isInAddress: presented.isInUrl, origin: grant.use === 'session' ? grant.origin : undefined }
  }

  #nowSeconds(): number {
    return Math.floor(this.#options.now() / 1000)
  }

  /** On a server with keys, the request was admitted with the one that it offered. */
  #keyName(providedKey: string | undefined): string {
    return this.#options.sessionKeys.length === 0 ? '' : this.#deriveKeyName(providedKey ?? '')
  }

  #deriveKeyName(key: string): string {
    return createHmac('sha256', this.#options.key)
      .update(`session key ${key}`)
      .digest('base64url')
      .slice(0, 16)
  }

  #signature(payload: string): Buffer {
    return createHmac('sha256', this.#options.key).update(`token ${payload}`).digest()
  }

  #sign(token: SignedToken): string {
    const payload = Buffer.from(JSON.stringify(token)).toString('base64url')
    return `${payload}.${this.#signature(payload).toString('base64url')}`
  }

  #peerSignature(text: string): Buffer {
    return createHmac('sha256', this.#options.key).update(`peer ${text}`).digest()
  }

  /** The other server has looked at the session key and the cookie's peer. */
  #verifyPeerToken(peerToken: string): PresentedToken | undefined {
    const [, text = '', signature = ''] = /^([^.]+\.[^.]+)\.([^.]+)$/.exec(peerToken) ?? []
    if (!isSignature(signature, this.#peerSignature(text))) return undefined
    const token = this.#parse(text)
    return token && { token, text, isInUrl: true }
  }

  #verify(text: string): SignedToken | undefined {
    const token = this.#parse(text)
    return token !== undefined && this.#keyNames.includes(token.key) ? token : undefined
  }

  /** Undefined when the signature is wrong or the token has expired. */
  #parse(text: string): SignedToken | undefined {
    const [payload = '', signature = '', ...rest] = text.split('.')
    if (rest.length > 0 || !isSignature(signature, this.#signature(payload))) return undefined
    // The signature is valid, so the shape is ours.
    const token: SignedToken = JSON.parse(Buffer.from(payload, 'base64url').toString())
    return token.until > this.#nowSeconds() ? token : undefined
  }
}

function isSignature(text: string, expected: Buffer): boolean {
  const provided = Buffer.from(text, 'base64url')
  return provided.length === expected.length && timingSafeEqual(provided, expected)
}

function invalidTicket(): Problem {
  return new Problem('unauthorized', 'The ticket is not valid, or it has expired')
}

/**
 * Browsers send the cookie with these for any page, and running a script reads it; pages of a workspace load
 * theirs by ticket.
 */
function isExecutableDestination(destination: string | undefined): boolean {
  return /^(script|style|font|xslt|json|manifest|(shared|service)?worker|\w+worklet)$/.test(destination ?? '')
}

/** `~<ticket>/` in a path: relative links of the page include the ticket. */
export const ticketSegment = /^\/*~([\w-]{40,}\.[\w-]{40,})(?:\/|$)/

/** The ticket of a URL: its parameter or a path segment. */
function findTicket(url: string): string | undefined {
  const queryStart = url.indexOf('?')
  const parameter =
    queryStart < 0 ? null : new URLSearchParams(url.slice(queryStart + 1)).getAll('ticket').at(-1)
  if (parameter) return parameter
  const path = decodePercent(queryStart < 0 ? url : url.slice(0, queryStart)) ?? ''
  return ticketSegment.exec(/\/workspace(\/.*)$/s.exec(path)?.[1] ?? '')?.[1]
}
