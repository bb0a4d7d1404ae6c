import { hash, randomBytes } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import type { LogFunction, Route } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { getHeader } from '../core/incoming-request.ts'

/** The caller as the audit records it: never a key. */
export interface AuditCaller {
  /** A user, a sandbox, or `key:` and the beginning of a key's SHA-256. */
  readonly caller?: string | undefined
  readonly org?: string | undefined
  /** The id of an API key, which is no secret. */
  readonly via?: string | undefined
}

/** The audit record of a request that changes something. No body, no query, no secret. */
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

/** What a server keeps of an audited request in addition to its entry, from its beginning on. */
export interface RequestTrail {
  /** The request is answered within `work`. */
  run<T>(work: () => T): T
  /** Called with the valid input of the request. */
  setInput(input: { readonly params: unknown; readonly body: unknown }): void
  /** Called when the request has been answered. */
  end(entry: AuditEntry): void
}

/** Records an entry after the request has been answered. */
export type Audit = (entry: AuditEntry) => void

/** Whether a request is recorded: it changes something, or exposes secrets. */
export function isAudited(route: Pick<Route, 'audit'> | undefined, raw: IncomingMessage): boolean {
  if (route === undefined || route.audit === false) return false
  const isReading = raw.method === 'GET' || raw.method === 'HEAD'
  if (!isReading || route.audit !== undefined) return true
  const { url = '', headers } = raw
  const exposeHeader = headers['x-expose-secrets']
  if (exposeHeader !== undefined && String(exposeHeader).toLowerCase() !== 'encrypted') return true
  return url.includes('expose_secrets=') && /[?&]expose_secrets=(?!false|0|&|$)/i.test(url)
}

/** The request id that a proxy has set, if it is valid; else a new one. */
export function getRequestId(raw: IncomingMessage): string {
  const header = getHeader(raw, 'x-request-id') ?? ''
  return /^[\w.-]{1,64}$/.test(header) ? header : randomBytes(8).toString('hex')
}

/** Distinguishes keys without revealing them: they are long and random. */
export function keyFingerprint(key: string): string {
  return `key:${hash('sha256', key).slice(0, 12)}`
}

/** The valid ids among the path parameters. */
export function auditIds(params: unknown): Pick<AuditEntry, 'conversation' | 'sandbox'> {
  const { conversation_id, sandbox_id }: { conversation_id?: unknown; sandbox_id?: unknown } = Object(params)
  return { conversation: validId(conversation_id), sandbox: validId(sandbox_id) }
}

function validId(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w-]{1,64}$/.test(value) ? value : undefined
}

/** Writes entries to a file, one JSON object per line, synchronously. */
export class AuditFile implements Disposable {
  readonly #path: string
  readonly #log: LogFunction
  readonly #reopen = () => this.#open()
  #fd: number | undefined
  /** The file ends with a partial line. */
  #endsMidLine = false

  /**
   * Appends to an existing file. Throws a readable Error when it cannot be opened; later failures are logged.
   * SIGHUP reopens the file, for log rotation.
   */
  constructor(path: string, log: LogFunction) {
    this.#path = path
    this.#log = log
    try {
      this.#fd = openSync(path, 'a', 0o600)
    } catch (cause) {
      throw new Error(`The audit log ${path} cannot be opened: ${errorCode(cause) ?? cause}`, { cause })
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
      this.#log('error', 'the audit log cannot be written', {
        ...entry,
        error: errorCode(error) ?? String(error),
      })
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
      this.#log('error', 'the audit log cannot be reopened', { error: errorCode(error) ?? String(error) })
    }
  }
}
