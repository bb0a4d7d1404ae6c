import { type FileHandle, mkdir, open, readdir, readFile, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { type Instant, type LogFunction, parseInstant } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { type BashEventKey, instantDigits } from './page-id.ts'

/** One kept event: its line is `size` bytes from `offset` of its command's file, without the line's end. */
export interface BashEventEntry extends BashEventKey {
  readonly command: CommandFile
  /** -1 for the command itself. */
  readonly order: number
  readonly isLast: boolean
  readonly offset: number
  readonly size: number
  /** The line, when the file could not take it. */
  readonly bytes?: Buffer
}

/** A command whose events are kept in a file of its own: a line each, the command first, then its output. */
export interface CommandFile {
  readonly id: string
  readonly path: string
  readonly entries: BashEventEntry[]
  sizeBytes: number
}

/** Makes the file of a new command with its first line, open for more. Rejects when there is no room, and leaves nothing. */
export async function createCommandFile(
  directory: string,
  { id, instant, line }: { readonly id: string; readonly instant: Instant; readonly line: Buffer },
): Promise<{ command: CommandFile; file: FileHandle }> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const path = join(directory, `${instantDigits(instant)}_${id}.jsonl`)
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
export async function readLines(entries: readonly BashEventEntry[]): Promise<(Buffer | undefined)[]> {
  const files = new Map<CommandFile, FileHandle | undefined>()
  try {
    const lines: (Buffer | undefined)[] = []
    for (const entry of entries) {
      const { command, bytes, size, offset } = entry
      if (!files.has(command)) files.set(command, await open(command.path, 'r').catch(() => undefined))
      if (bytes !== undefined) lines.push(bytes)
      else lines.push(await readFully(files.get(command), offset, size))
    }
    return lines
  } finally {
    for (const file of files.values()) await file?.close()
  }
}

/** A JSON array of lines, null for the missing. */
export function toJsonArray(lines: readonly (Buffer | undefined)[]): Buffer {
  const parts = lines.flatMap((line, index) => [
    Buffer.from(index === 0 ? '' : ','),
    line ?? Buffer.from('null'),
  ])
  return Buffer.concat([Buffer.from('['), ...parts, Buffer.from(']')])
}

async function readFully(
  file: FileHandle | undefined,
  offset: number,
  size: number,
): Promise<Buffer | undefined> {
  if (file === undefined) return undefined
  const bytes = Buffer.allocUnsafe(size)
  let bytesDone = 0
  while (bytesDone < size) {
    const { bytesRead } = await file.read(bytes, bytesDone, size - bytesDone, offset + bytesDone)
    if (bytesRead === 0) return undefined
    bytesDone += bytesRead
  }
  return bytes
}

/**
 * The commands of a directory, in order of time. What was cut off in the middle of a line when the process died is taken
 * away; a file without a whole first line is removed. One that cannot be read is left alone.
 */
export async function loadCommandFiles(directory: string, log: LogFunction): Promise<CommandFile[]> {
  const names = await readdir(directory).catch(() => [])
  const commands: CommandFile[] = []
  for (const name of names.sort()) {
    const id = /^\d{20}_([0-9a-f]{32})\.jsonl$/.exec(name)?.[1]
    if (id === undefined) continue
    const path = join(directory, name)
    try {
      const command = await loadCommandFile(path, id)
      if (command === undefined) await rm(path, { force: true })
      else commands.push(command)
    } catch (error) {
      log('warn', 'a kept command cannot be read', { file: name, error: errorCode(error) ?? String(error) })
    }
  }
  return commands
}

async function loadCommandFile(path: string, id: string): Promise<CommandFile | undefined> {
  const bytes = await readFile(path)
  const command: CommandFile = { id, path, entries: [], sizeBytes: 0 }
  for (;;) {
    const end = bytes.indexOf(10, command.sizeBytes)
    const entry = end === -1 ? undefined : parseEntry(command, bytes.subarray(command.sizeBytes, end))
    if (entry === undefined) break
    command.entries.push(entry)
    command.sizeBytes = end + 1
  }
  if (command.sizeBytes < bytes.length) await truncate(path, command.sizeBytes)
  return command.entries.length === 0 ? undefined : command
}

/** The beginning of an output's line tells enough: the texts are not looked at. */
const outputPrefix =
  /^\{"id":"([0-9a-f]{32})","timestamp":"([^"]+)","command_id":"([0-9a-f]{32})","order":(\d+),"exit_code":(null|-?\d+),/

function parseEntry(command: CommandFile, line: Buffer): BashEventEntry | undefined {
  const location = { command, commandId: command.id, offset: command.sizeBytes, size: line.length }
  if (command.entries.length === 0) {
    const instant = parseInstant(parseTimestamp(line) ?? '')
    if (instant === undefined) return undefined
    return { ...location, id: command.id, kind: 'BashCommand', instant, order: -1, isLast: false }
  }
  const [, id, timestamp = '', , order, exit] =
    outputPrefix.exec(line.subarray(0, 300).toString('latin1')) ?? []
  const instant = parseInstant(timestamp)
  if (id === undefined || instant === undefined) return undefined
  return { ...location, id, kind: 'BashOutput', instant, order: Number(order), isLast: exit !== 'null' }
}

function parseTimestamp(line: Buffer): string | undefined {
  try {
    const value: unknown = JSON.parse(line.toString())
    if (typeof value !== 'object' || value === null || !('timestamp' in value)) return undefined
    return typeof value.timestamp === 'string' ? value.timestamp : undefined
  } catch {
    return undefined
  }
}
