import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { isRecord } from '@slipway/shared/json'
import type { AuditEntry } from './audit.ts'

/** An entry with its time, UTC, and its number, which only grows. */
export interface AuditRecord extends AuditEntry {
  readonly time: string
  readonly number: number
}

const capacity = 1_000
/** Most bytes of an audit file that are read at a start. */
const tailBytes = 512 * 1024

/** The newest 1,000 entries of the audit, for administrators. */
export class RecentAudit {
  readonly #records: AuditRecord[] = []
  #next = 1

  /** Begins with the last entries of an audit file, where there is one. */
  constructor(path?: string) {
    for (const line of path === undefined ? [] : readLastLines(path)) {
      const entry = parseEntry(line)
      if (entry !== undefined) this.#push(entry, entry.time)
    }
  }

  add(entry: AuditEntry): void {
    this.#push(entry, new Date().toISOString())
  }

  /** The newest first: at most `limit` below the number `before` for which `matches` holds. */
  read(options: {
    readonly limit: number
    readonly before?: number | undefined
    readonly matches?: (record: AuditRecord) => boolean
  }): { readonly records: readonly AuditRecord[]; readonly next: number | undefined } {
    const { limit, before = Number.POSITIVE_INFINITY, matches = () => true } = options
    const found = this.#records.filter((record) => record.number < before && matches(record)).reverse()
    const records = found.slice(0, limit)
    return { records, next: found.length > limit ? records.at(-1)?.number : undefined }
  }

  #push(entry: AuditEntry, time: string): void {
    this.#records.push({ ...entry, time, number: this.#next++ })
    if (this.#records.length > capacity) this.#records.shift()
  }
}

/** The whole lines at the end of a file; none when it cannot be read. */
function readLastLines(path: string): string[] {
  let fd: number | undefined
  try {
    fd = openSync(path, 'r')
    const { size } = fstatSync(fd)
    const bytes = Buffer.alloc(Math.min(size, tailBytes))
    const start = size - bytes.length
    const length = readSync(fd, bytes, 0, bytes.length, start)
    const lines = bytes.toString('utf8', 0, length).split('\n')
    return start === 0 ? lines : lines.slice(1)
  } catch {
    return []
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** Undefined for a line that is no entry, such as one that a crash cut. */
function parseEntry(line: string): (AuditEntry & { time: string }) | undefined {
  try {
    const value: unknown = JSON.parse(line)
    if (!isRecord(value)) return undefined
    const { time, method, route, status, request_id, caller, org, via, conversation, sandbox } = value
    if (typeof time !== 'string' || typeof method !== 'string' || typeof route !== 'string') return undefined
    if (typeof status !== 'number' || typeof request_id !== 'string') return undefined
    const text = (member: unknown) => (typeof member === 'string' ? member : undefined)
    const about = { caller: text(caller), org: text(org), via: text(via) }
    const ids = { conversation: text(conversation), sandbox: text(sandbox) }
    return { audit: true, time, method, route, status, request_id, ...about, ...ids }
  } catch {
    return undefined
  }
}
