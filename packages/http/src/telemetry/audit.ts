import { hash, randomBytes } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import type { LogFunction, Route } from '@slipway/protocol'
import { getHeader } from '../core/incoming-request.ts'

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
  const exposeHeader = headers['x-expose-secrets']
  if (exposeHeader !== undefined && String(exposeHeader).toLowerCase() !== 'encrypted') return true
  return url.includes('expose_secrets=') && /[?&]expose_secrets=(?!false|0|&|$)/i.test(url)
}

/** The id that a proxy has given to a request, if it is one; else a new one. */
export function getRequestId(raw: IncomingMessage): string {
  const header = getHeader(raw, 'x-request-id') ?? ''
  return /^[\w.-]{1,64}$/.test(header) ? header : randomBytes(8).toString('hex')
}

/** What tells keys apart and gives none away: they are long and random. */
export function keyFingerprint(key: string): string {
  return `key:${hash('sha256', key).slice(0, 12)}`
}

/** The ids that an address names, as far as they look like ids. */
export function auditIds(params: unknown): Pick<AuditEntry, 'conversation' | 'sandbox'> {
  const { conversation_id, sandbox_id }: { conversation_id?: unknown; sandbox_id?: unknown } = Object(params)
  return { conversation: validId(conversation_id), sandbox: validId(sandbox_id) }
}

function validId(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w-]{1,64}$/.test(value) ? value : undefined
}

/** An audit that is a line of a log. */
export function createLogAudit(log: LogFunction): Audit {
  return (entry) => log('info', 'audit', { ...entry })
}

/** An audit that is a file: one JSON object a line, with the kernel before the next request is looked at. */
export class AuditFile implements Disposable {
  readonly #path: string
  readonly #log: LogFunction
  readonly #reopen = () => this.#open()
  #fd: number | undefined
  /** A line that was not written whole stands at the end. */
  #endsMidLine = false

  /**
   * Lines are added to what is there. Throws an Error for people when it cannot be opened; what cannot be written later is told
   * to the log. SIGHUP opens it anew, for those who move it away.
   */
  constructor(path: string, log: LogFunction) {
    this.#path = path
    this.#log = log
    try {
      this.#fd = openSync(path, 'a', 0o600)
    } catch (cause) {
      throw new Error(`The audit log ${path} cannot be opened: ${errorCode(cause)}`, { cause })
    }
    process.on('SIGHUP', this.#reopen)
  }

  write(entry: AuditEntry): void {
    const line = `${JSON.stringify({ time: new Date().toISOString(), ...entry })}\n`
    const bytes = Buffer.from(this.#endsMidLine ? `\n${line}` : line)
    try {
      if (this.#fd === undefined) throw new Error('it is not open')
      for (let at = 0; at < bytes.length; ) {
        at += writeSync(this.#fd, bytes, at)
        this.#endsMidLine = at < bytes.length
      }
    } catch (error) {
      this.#log('error', 'the audit log cannot be written', { ...entry, error: errorCode(error) })
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
      this.#endsMidLine = false
    } catch (error) {
      this.#log('error', 'the audit log cannot be opened anew', { error: errorCode(error) })
    }
  }
}

function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
