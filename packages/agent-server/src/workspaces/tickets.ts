import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Pass } from '@slipway/http'
import { Problem, type Secret } from '@slipway/protocol'

export const cookieName = 'oh_workspace_session_key'

/** How long the cookie of a browser opens workspaces. */
export const sessionSeconds = 7 * 24 * 3_600

/** How long at most an address opens what a page embeds; it is the same for an hour, so that browsers keep what they have. */
const pageHours = 2

/**
 * What a token opens: `session` every file of every workspace; `ticket` the file or the directory `path` of one conversation; `page` what
 * a page embeds (see `isEmbedded`) of one conversation.
 */
export type Grant =
  | { readonly use: 'session'; readonly origin?: string }
  | { readonly use: 'ticket' | 'page'; readonly conversation: string; readonly path: string }

/** A grant, until when it holds, and the session key that it was made with. */
interface Token {
  readonly grant: Grant
  /** Seconds. */
  readonly until: number
  /** Names the session key; empty on a server without keys. */
  readonly key: string
}

export interface Shown {
  readonly token: Token
  /** As it was shown. */
  readonly text: string
  readonly isInAddress: boolean
}

interface Options {
  /** Signs; who has it can make tokens. */
  readonly key: Buffer
  readonly sessionKeys: readonly Secret[]
  /** Now, in milliseconds. */
  readonly now: () => number
}

/**
 * Signed tokens that open files of workspaces and nothing else. None of them holds a session key, and each dies with the session key that
 * it was made with. Nothing is kept of them.
 */
export class Tickets {
  readonly #options: Options
  /** Names of the session keys, which tell nothing of them. */
  readonly #names: readonly string[]

  constructor(options: Options) {
    this.#options = options
    const { sessionKeys } = options
    this.#names = sessionKeys.length === 0 ? [''] : sessionKeys.map((key) => this.#nameOf(key.open()))
  }

  /** The value of a browser's cookie, for whoever has shown this session key on a page of this origin. */
  session(offered: string | undefined, origin: string | undefined): string {
    const grant: Grant = { use: 'session', ...(origin === undefined ? {} : { origin: origin.toLowerCase() }) }
    return this.#sign({ grant, until: this.#seconds() + sessionSeconds, key: this.#keyOf(offered) })
  }

  ticket(
    offered: string | undefined,
    { conversation, path, seconds }: { conversation: string; path: string; seconds: number },
  ): { readonly text: string; readonly expiresAtMs: number } {
    const until = this.#seconds() + seconds
    const text = this.#sign({
      grant: { use: 'ticket', conversation, path },
      until,
      key: this.#keyOf(offered),
    })
    return { text, expiresAtMs: until * 1000 }
  }

  /** What a page that somebody has opened may load by itself. A ticket goes on being what it is. */
  page(shown: Shown | undefined, offered: string | undefined, conversation: string): string {
    if (shown !== undefined && shown.token.grant.use !== 'session') return shown.text
    const until = (Math.floor(this.#seconds() / 3_600) + pageHours) * 3_600
    const key = shown?.token.key ?? this.#keyOf(offered)
    return this.#sign({ grant: { use: 'page', conversation, path: '' }, until, key })
  }

  /** What a request shows: in its address a ticket, else the cookie, but not for scripts and their like. A Problem when the ticket is none, or no longer one. */
  shown(url: string, header: (name: string) => string | undefined): Shown | Problem | undefined {
    const inAddress = ticketIn(url)
    if (inAddress !== undefined) {
      const token = this.#open(inAddress)
      if (token === undefined || token.grant.use === 'session')
        return new Problem('unauthorized', 'The ticket is not valid, or it has expired')
      return { token, text: inAddress, isInAddress: true }
    }
    if (isRun(header('sec-fetch-dest'))) return undefined
    for (const text of cookies(header('cookie') ?? '')) {
      const token = this.#open(text)
      if (token?.grant.use === 'session') return { token, text, isInAddress: false }
    }
    return undefined
  }

  /** The same for the server that admits requests; it leaves it to the handler whether the file is one that the token opens. */
  pass(url: string, header: (name: string) => string | undefined): Pass | Problem | undefined {
    const shown = this.shown(url, header)
    if (shown === undefined || shown instanceof Problem) return shown
    const { grant } = shown.token
    return { isInAddress: shown.isInAddress, origin: grant.use === 'session' ? grant.origin : undefined }
  }

  #seconds(): number {
    return Math.floor(this.#options.now() / 1000)
  }

  /** On a server with keys, the request was admitted with the one that it offered. */
  #keyOf(offered: string | undefined): string {
    return this.#options.sessionKeys.length === 0 ? '' : this.#nameOf(offered ?? '')
  }

  #nameOf(key: string): string {
    return createHmac('sha256', this.#options.key)
      .update(`session key ${key}`)
      .digest('base64url')
      .slice(0, 16)
  }

  #signature(payload: string): Buffer {
    return createHmac('sha256', this.#options.key).update(`token ${payload}`).digest()
  }

  #sign(token: Token): string {
    const payload = Buffer.from(JSON.stringify(token)).toString('base64url')
    return `${payload}.${this.#signature(payload).toString('base64url')}`
  }

  #open(text: string): Token | undefined {
    const [payload = '', signature = '', ...rest] = text.split('.')
    const given = Buffer.from(signature, 'base64url')
    const right = this.#signature(payload)
    if (rest.length > 0 || given.length !== right.length || !timingSafeEqual(given, right)) return undefined
    // What has been signed here is one.
    const token: Token = JSON.parse(Buffer.from(payload, 'base64url').toString())
    const isAlive = token.until > this.#seconds() && this.#names.includes(token.key)
    return isAlive ? token : undefined
  }
}

/**
 * What a browser loads to run it. It sends the cookie with this too, whatever page asks, and running a script is a way to read it; what belongs
 * to a page of a workspace is loaded by a ticket.
 */
function isRun(destination: string | undefined): boolean {
  return /^(script|style|font|xslt|json|manifest|(shared|service)?worker|\w+worklet)$/.test(destination ?? '')
}

/** Where a ticket stands in a path, so that what a page names relative to its own address has it too: `~<ticket>/`. */
export const ticketStep = /^\/*~([\w-]{40,}\.[\w-]{40,})(?:\/|$)/

/** The ticket of an address: its parameter, or a step of its path. */
function ticketIn(url: string): string | undefined {
  const at = url.indexOf('?')
  const given = at < 0 ? null : new URLSearchParams(url.slice(at + 1)).getAll('ticket').at(-1)
  if (given) return given
  const path = decoded(at < 0 ? url : url.slice(0, at))
  return ticketStep.exec(/\/workspace(\/.*)$/s.exec(path)?.[1] ?? '')?.[1]
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return ''
  }
}

function* cookies(header: string): Generator<string> {
  for (const pair of header.split(';')) {
    const [name = '', value = ''] = pair.split('=', 2)
    if (name.trim() === cookieName) yield value.trim()
  }
}
