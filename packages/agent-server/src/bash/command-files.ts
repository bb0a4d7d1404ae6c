import { type FileHandle, mkdir, open, readdir, readFile, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { type Instant, type Log, parseInstant } from '@slipway/protocol'
import { codeOf } from '@slipway/storage'
import { digitsOf, type Named } from './page-id.ts'

/** One kept event: its line is `size` bytes from `offset` of its command's file, without the line's end. */
export interface Entry extends Named {
  readonly command: Kept
  /** -1 for the command itself. */
  readonly order: number
  readonly isLast: boolean
  readonly offset: number
  readonly size: number
  /** The line, when the file could not take it. */
  readonly bytes?: Buffer
}

/** A command whose events are kept in a file of its own: a line each, the command first, then its output. */
export interface Kept {
  readonly id: string
  readonly path: string
  readonly entries: Entry[]
  sizeBytes: number
}

/** Makes the file of a new command with its first line, open for more. Rejects when there is no room, and leaves nothing. */
export async function makeFile(
  directory: string,
  { id, instant, line }: { readonly id: string; readonly instant: Instant; readonly line: Buffer },
): Promise<{ command: Kept; file: FileHandle }> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const path = join(directory, `${digitsOf(instant)}_${id}.jsonl`)
  const file = await open(path, 'ax', 0o600)
  try {
    await file.appendFile(Buffer.concat([line, Buffer.from('\n')]))
  } catch (error) {
    await file.close()
    await rm(path, { force: true })
    throw error
  }
  return { command: { id, path, entries: [], sizeBytes: line.length + 1 }, file }
}

/** Reads the lines of entries; undefined for what has been removed meanwhile. Each file is opened once. */
export async function readLines(entries: readonly Entry[]): Promise<(Buffer | undefined)[]> {
  const files = new Map<Kept, FileHandle | undefined>()
  try {
    const lines: (Buffer | undefined)[] = []
    for (const entry of entries) {
      const { command, bytes, size, offset } = entry
      if (!files.has(command)) files.set(command, await open(command.path, 'r').catch(() => undefined))
      if (bytes !== undefined) lines.push(bytes)
      else lines.push(await readWhole(files.get(command), offset, size))
    }
    return lines
  } finally {
    for (const file of files.values()) await file?.close()
  }
}

/** A JSON array of lines, null for the missing. */
export function listOf(lines: readonly (Buffer | undefined)[]): Buffer {
  const parts = lines.flatMap((line, at) => [Buffer.from(at === 0 ? '' : ','), line ?? Buffer.from('null')])
  return Buffer.concat([Buffer.from('['), ...parts, Buffer.from(']')])
}

async function readWhole(
  file: FileHandle | undefined,
  offset: number,
  size: number,
): Promise<Buffer | undefined> {
  if (file === undefined) return undefined
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  while (at < size) {
    const { bytesRead } = await file.read(bytes, at, size - at, offset + at)
    if (bytesRead === 0) return undefined
    at += bytesRead
  }
  return bytes
}

/**
 * The commands of a directory, in order of time. What was cut off in the middle of a line when the process died is taken
 * away; a file without a whole first line is removed. One that cannot be read is left alone.
 */
export async function loadFiles(directory: string, log: Log): Promise<Kept[]> {
  const names = await readdir(directory).catch(() => [])
  const kept: Kept[] = []
  for (const name of names.sort()) {
    const id = /^\d{20}_([0-9a-f]{32})\.jsonl$/.exec(name)?.[1]
    if (id === undefined) continue
    const path = join(directory, name)
    try {
      const command = await loadFile(path, id)
      if (command === undefined) await rm(path, { force: true })
      else kept.push(command)
    } catch (error) {
      log('warn', 'a kept command cannot be read', { file: name, error: codeOf(error) ?? String(error) })
    }
  }
  return kept
}

async function loadFile(path: string, id: string): Promise<Kept | undefined> {
  const bytes = await readFile(path)
  const kept: Kept = { id, path, entries: [], sizeBytes: 0 }
  for (;;) {
    const end = bytes.indexOf(10, kept.sizeBytes)
    const entry = end === -1 ? undefined : read(kept, bytes.subarray(kept.sizeBytes, end))
    if (entry === undefined) break
    kept.entries.push(entry)
    kept.sizeBytes = end + 1
  }
  if (kept.sizeBytes < bytes.length) await truncate(path, kept.sizeBytes)
  return kept.entries.length === 0 ? undefined : kept
}

/** The beginning of an output's line tells enough: the texts are not looked at. */
const outputHead =
  /^\{"id":"([0-9a-f]{32})","timestamp":"([^"]+)","command_id":"([0-9a-f]{32})","order":(\d+),"exit_code":(null|-?\d+),/

function read(command: Kept, line: Buffer): Entry | undefined {
  const place = { command, commandId: command.id, offset: command.sizeBytes, size: line.length }
  if (command.entries.length === 0) {
    const instant = parseInstant(timestampOf(line) ?? '')
    if (instant === undefined) return undefined
    return { ...place, id: command.id, kind: 'BashCommand', instant, order: -1, isLast: false }
  }
  const [, id, timestamp = '', , order, exit] =
    outputHead.exec(line.subarray(0, 300).toString('latin1')) ?? []
  const instant = parseInstant(timestamp)
  if (id === undefined || instant === undefined) return undefined
  return { ...place, id, kind: 'BashOutput', instant, order: Number(order), isLast: exit !== 'null' }
}

function timestampOf(line: Buffer): string | undefined {
  try {
    const value: unknown = JSON.parse(line.toString())
    if (typeof value !== 'object' || value === null || !('timestamp' in value)) return undefined
    return typeof value.timestamp === 'string' ? value.timestamp : undefined
  } catch {
    return undefined
  }
}
