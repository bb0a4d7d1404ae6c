import { hash, randomBytes } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import type { Log, Route } from '@slipway/protocol'
import { headerOf } from '../core/incoming-request.ts'

/** Who asks, as far as it may be written down: never a key. */
export interface AuditCaller {
  /** A user, a sandbox, or `key:` and the beginning of a key's SHA-256. */
  readonly caller?: string | undefined
  readonly org?: string | undefined
  /** The id of an API key, which is no secret. */
  readonly via?: string | undefined
}

/** What is written down of a request that changes something. No body, no query, no secret. */
export interface AuditEntry extends AuditCaller {
  readonly audit: true
  readonly method: string
  /** With braces. */
  readonly route: string
  readonly status: number
  readonly conversation?: string | undefined
  readonly sandbox?: string | undefined
  readonly request_id: string
}

/** Takes an entry when the request has been answered. */
export type Audit = (entry: AuditEntry) => void

/** Whether a request is one that is written down: it changes something, or shows secrets. */
export function isAudited(route: Pick<Route, 'audit'> | undefined, raw: IncomingMessage): boolean {
  if (route === undefined || route.audit === false) return false
  const isReading = raw.method === 'GET' || raw.method === 'HEAD'
  if (!isReading || route.audit === true) return true
  const { url = '', headers } = raw
  const asked = headers['x-expose-secrets']
  if (asked !== undefined && String(asked).toLowerCase() !== 'encrypted') return true
  return url.includes('expose_secrets=') && /[?&]expose_secrets=(?!false|0|&|$)/i.test(url)
}

/** The id that a proxy has given to a request, if it is one; else a new one. */
export function requestId(raw: IncomingMessage): string {
  const given = headerOf(raw, 'x-request-id') ?? ''
  return /^[\w.-]{1,64}$/.test(given) ? given : randomBytes(8).toString('hex')
}

/** What tells keys apart and gives none away: they are long and random. */
export function keyName(key: string): string {
  return `key:${hash('sha256', key).slice(0, 12)}`
}

/** The ids that an address names, as far as they look like ids. */
export function auditIds(params: unknown): Pick<AuditEntry, 'conversation' | 'sandbox'> {
  const { conversation_id, sandbox_id }: { conversation_id?: unknown; sandbox_id?: unknown } = Object(params)
  return { conversation: idIn(conversation_id), sandbox: idIn(sandbox_id) }
}

function idIn(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w-]{1,64}$/.test(value) ? value : undefined
}

/** An audit that is a line of a log. */
export function auditTo(log: Log): Audit {
  return (entry) => log('info', 'audit', { ...entry })
}

/** An audit that is a file: one JSON object a line, with the kernel before the next request is looked at. */
export class AuditFile implements Disposable {
  readonly #path: string
  readonly #log: Log
  readonly #reopen = () => this.#open()
  #fd: number | undefined
  /** A line that was not written whole stands at the end. */
  #isTorn = false

  /**
   * Lines are added to what is there. Throws an Error for people when it cannot be opened; what cannot be written later is told
   * to the log. SIGHUP opens it anew, for those who move it away.
   */
  constructor(path: string, log: Log) {
    this.#path = path
    this.#log = log
    try {
      this.#fd = openSync(path, 'a', 0o600)
    } catch (cause) {
      throw new Error(`The audit log ${path} cannot be opened: ${codeOf(cause)}`, { cause })
    }
    process.on('SIGHUP', this.#reopen)
  }

  write(entry: AuditEntry): void {
    const line = `${JSON.stringify({ time: new Date().toISOString(), ...entry })}\n`
    const bytes = Buffer.from(this.#isTorn ? `\n${line}` : line)
    try {
      if (this.#fd === undefined) throw new Error('it is not open')
      for (let at = 0; at < bytes.length; ) {
        at += writeSync(this.#fd, bytes, at)
        this.#isTorn = at < bytes.length
      }
    } catch (error) {
      this.#log('error', 'the audit log cannot be written', { ...entry, error: codeOf(error) })
    }
  }

  [Symbol.dispose](): void {
    process.off('SIGHUP', this.#reopen)
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }

  #open(): void {
    try {
      const fd = openSync(this.#path, 'a', 0o600)
      if (this.#fd !== undefined) closeSync(this.#fd)
      this.#fd = fd
      this.#isTorn = false
    } catch (error) {
      this.#log('error', 'the audit log cannot be opened anew', { error: codeOf(error) })
    }
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
