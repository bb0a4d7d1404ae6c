import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import {
  type BashCommand,
  type BashOutput,
  type BashSearchQuery,
  formatInstant,
  type Log,
  must,
  Problem,
} from '@slipway/protocol'
import { codeOf } from '@slipway/storage'
import { Bell } from '../streams/event-frames.ts'
import { type Entry, type Kept, listOf, loadFiles, makeFile, readLines } from './command-files.ts'
import { BashIndex } from './event-index.ts'
import { nameOf } from './page-id.ts'

export interface BashEventsOptions {
  readonly directory: string
  readonly log: Log
  /** Microseconds. */
  readonly now: () => number
  /** Commands that were over for longer are removed; undefined: none for its age. */
  readonly retentionMs: number | undefined
  /** Above these the oldest commands that are over are removed; 50,000 and 512 MiB unless given. */
  readonly maxEvents?: number
  readonly maxBytes?: number
  /** A page ends before it is larger; 8 MiB unless given. */
  readonly maxPageBytes?: number
}

export type OutputDraft = Pick<BashOutput, 'exit_code' | 'stdout' | 'stderr'>

const cut = { exit_code: -1, stdout: null, stderr: 'The server ended while this command ran.' }

/**
 * The commands that were run and their output, each moment once and in order. They survive the end of the process: the first
 * use reads what is there, and ends what was running. Whole commands are removed, the oldest first, and none that runs.
 */
export class BashEvents implements AsyncDisposable {
  readonly #options: BashEventsOptions
  readonly #index = new BashIndex()
  readonly #running = new Map<string, FileHandle>()
  #lastInstant = 0
  /** One write at a time, so that what is seen is in order of time. */
  #writing: Promise<unknown> = Promise.resolve()
  #loading: Promise<void> | undefined
  readonly #loadedIds = new Set<string>()
  readonly #bells = new Set<Bell>()

  constructor(options: BashEventsOptions) {
    this.#options = options
  }

  /** Keeps a command that begins; answers its line. A full disk is a Problem `storage_full`. */
  async begin(
    draft: Pick<BashCommand, 'command' | 'cwd' | 'timeout'>,
  ): Promise<{ id: string; line: Buffer }> {
    return await this.#write(async () => {
      const id = newId()
      const instant = this.#nextInstant()
      const kind = 'BashCommand'
      const line = Buffer.from(JSON.stringify({ ...draft, id, timestamp: formatInstant(instant), kind }))
      const { command, file } = await this.#make(id, instant, line)
      this.#running.set(id, file)
      this.#add({
        command,
        commandId: id,
        id,
        instant,
        kind,
        order: -1,
        isLast: false,
        offset: 0,
        size: line.length,
      })
      await this.#trim()
      return { id, line }
    })
  }

  /**
   * Keeps a piece of the output of a command that runs; with an exit code it is the last one, and the command is over. False
   * says that the disk had no room: then a last piece is kept in memory, another one is lost.
   */
  async output(commandId: string, order: number, draft: OutputDraft): Promise<boolean> {
    return await this.#write(async () => {
      const isKept = await this.#put(commandId, order, draft)
      await this.#trim()
      return isKept
    })
  }

  /** The commands that were there at the start. */
  async kept(): Promise<ReadonlySet<string>> {
    await this.#loaded()
    return this.#loadedIds
  }

  /** Bytes that are kept of a command. */
  sizeOf(commandId: string): number {
    return this.#index.command(commandId)?.sizeBytes ?? 0
  }

  /** One page as JSON: `{"items":[...],"next_page_id":...}`. An unknown page id is a Problem `invalid`. */
  async search({ limit, ...filters }: BashSearchQuery): Promise<Buffer> {
    await this.#ready()
    const { maxPageBytes = 8 * 1024 * 1024 } = this.#options
    const found: Entry[] = []
    let sizeBytes = 0
    let next: Entry | undefined
    for (const entry of this.#index.matching(filters)) {
      sizeBytes += entry.size
      if (found.length === limit || (found.length > 0 && sizeBytes > maxPageBytes)) {
        next = entry
        break
      }
      found.push(entry)
    }
    const lines = (await readLines(found)).filter((line) => line !== undefined)
    const nextPageId = JSON.stringify(next === undefined ? null : nameOf(next))
    return Buffer.concat([
      Buffer.from('{"items":'),
      listOf(lines),
      Buffer.from(`,"next_page_id":${nextPageId}}`),
    ])
  }

  /** The lines of events; undefined for the missing. */
  async get(ids: readonly string[]): Promise<(Buffer | undefined)[]> {
    await this.#ready()
    const entries = ids.map((id) => this.#index.entry(id))
    const lines = await readLines(entries.filter((entry) => entry !== undefined))
    return entries.map((entry) => (entry === undefined ? undefined : lines.shift()))
  }

  /** The output of a command that is over, all pieces as one; undefined when it has been removed. */
  async whole(commandId: string): Promise<BashOutput | undefined> {
    const outputs = this.#index.command(commandId)?.entries.slice(1) ?? []
    const lines = await readLines(outputs)
    const pieces = lines.flatMap((line): BashOutput[] =>
      line === undefined ? [] : [JSON.parse(line.toString())],
    )
    const last = pieces.at(-1)
    if (last === undefined || pieces.length < outputs.length) return undefined
    const joined = (name: 'stdout' | 'stderr') => pieces.map((piece) => piece[name] ?? '').join('') || null
    return { ...last, stdout: joined('stdout'), stderr: joined('stderr'), kind: last.kind }
  }

  /** Removes the commands that are over; answers how many events that were. */
  async clear(): Promise<number> {
    return await this.#write(async () => await this.#remove(this.#index.over()))
  }

  /** All lines from the first on, or those that come from now on, in order, each once, until the signal aborts. */
  async *tail(options: { readonly all: boolean; readonly signal: AbortSignal }): AsyncGenerator<Buffer[]> {
    const { all, signal } = options
    await this.#ready()
    const bell = new Bell()
    const ring = () => bell.ring()
    this.#bells.add(bell)
    signal.addEventListener('abort', ring, { once: true })
    let after = all ? 0 : this.#index.lastInstant
    try {
      while (!signal.aborted) {
        const entries = this.#index.after(after)
        after = entries.at(-1)?.instant ?? after
        if (entries.length === 0) await bell.heard(60_000)
        else yield (await readLines(entries)).filter((line) => line !== undefined)
      }
    } finally {
      this.#bells.delete(bell)
      signal.removeEventListener('abort', ring)
    }
  }

  /** Nothing can be written any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writing
    for (const file of this.#running.values()) await file.close()
    this.#running.clear()
  }

  async #write<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#writing.then(() => this.#loaded()).then(work)
    this.#writing = result.catch(() => {})
    return await result
  }

  async #ready(): Promise<void> {
    await this.#loaded()
    if (this.#expired().length > 0) await this.#write(async () => await this.#remove(this.#expired()))
  }

  async #loaded(): Promise<void> {
    this.#loading ??= this.#load()
    await this.#loading
  }

  async #load(): Promise<void> {
    const { directory, log } = this.#options
    this.#index.load(await loadFiles(directory, log))
    this.#lastInstant = this.#index.lastInstant
    const over = new Set(this.#index.over())
    for (const command of this.#index.commands()) {
      this.#loadedIds.add(command.id)
      if (over.has(command)) continue
      try {
        this.#running.set(command.id, await open(command.path, 'a'))
        await this.#put(command.id, command.entries.length - 1, cut)
      } catch (error) {
        log('warn', 'a kept command cannot be ended', { error: codeOf(error) ?? String(error) })
      }
    }
    await this.#trim()
  }

  async #make(id: string, instant: number, line: Buffer): Promise<{ command: Kept; file: FileHandle }> {
    try {
      return await makeFile(this.#options.directory, { id, instant, line })
    } catch (error) {
      const code = codeOf(error)
      this.#options.log('warn', 'a command cannot be kept', { error: code ?? String(error) })
      if (code === 'ENOSPC' || code === 'EDQUOT') throw new Problem('storage_full', 'The disk is full')
      throw new Problem('unavailable', 'The command cannot be kept')
    }
  }

  async #put(commandId: string, order: number, draft: OutputDraft): Promise<boolean> {
    const command = must(this.#index.command(commandId), 'a command that runs')
    const file = must(this.#running.get(commandId), 'a command that runs')
    const instant = this.#nextInstant()
    const id = newId()
    const { exit_code, stdout, stderr } = draft
    const kind = 'BashOutput'
    const head = { id, timestamp: formatInstant(instant), command_id: commandId, order, exit_code }
    const line = Buffer.from(JSON.stringify({ ...head, stdout, stderr, kind }))
    const isLast = exit_code !== null
    const offset = command.sizeBytes
    const isKept = await this.#append(command, file, line)
    if (isLast) {
      this.#running.delete(commandId)
      await file.close()
    }
    const place = { command, commandId, offset, size: line.length, ...(isKept ? {} : { bytes: line }) }
    if (isKept || isLast) this.#add({ ...place, id, instant, kind, order, isLast })
    return isKept
  }

  async #append(command: Kept, file: FileHandle, line: Buffer): Promise<boolean> {
    try {
      await file.appendFile(Buffer.concat([line, Buffer.from('\n')]))
      command.sizeBytes += line.length + 1
      return true
    } catch (error) {
      this.#options.log('warn', 'the output of a command cannot be kept', {
        error: codeOf(error) ?? 'unknown',
      })
      await file.truncate(command.sizeBytes).catch(() => {})
      return false
    }
  }

  #add(entry: Entry): void {
    this.#index.add(entry)
    for (const bell of this.#bells) bell.ring()
  }

  #expired(): Kept[] {
    const { retentionMs, now } = this.#options
    if (retentionMs === undefined) return []
    const before = now() - retentionMs * 1000
    return this.#index.over().filter(({ entries }) => must(entries.at(-1), 'an end').instant < before)
  }

  /** Removes what is too old, and as much of the oldest as brings the rest well below the limits. */
  async #trim(): Promise<void> {
    await this.#remove(this.#expired())
    const { maxEvents = 50_000, maxBytes = 512 * 1024 * 1024 } = this.#options
    let { events, sizeBytes } = this.#index
    if (events <= maxEvents && sizeBytes <= maxBytes) return
    const removed: Kept[] = []
    for (const command of this.#index.over()) {
      if (events <= maxEvents * 0.9 && sizeBytes <= maxBytes * 0.9) break
      removed.push(command)
      events -= command.entries.length
      sizeBytes -= command.sizeBytes
    }
    await this.#remove(removed)
  }

  /** Answers how many events that were. */
  async #remove(commands: readonly Kept[]): Promise<number> {
    if (commands.length === 0) return 0
    this.#index.remove(new Set(commands))
    for (const { path } of commands) await rm(path, { force: true })
    return commands.reduce((count, { entries }) => count + entries.length, 0)
  }

  /** Later than all moments before it, also when the clock goes back. */
  #nextInstant(): number {
    this.#lastInstant = Math.max(this.#options.now(), this.#lastInstant + 1)
    return this.#lastInstant
  }
}

function newId(): string {
  return randomUUID().replaceAll('-', '')
}
