import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import {
  type BashCommand,
  type BashOutput,
  type BashSearchQuery,
  formatInstant,
  type LogFunction,
  must,
  Problem,
} from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { Signal } from '../streams/event-frames.ts'
import {
  type BashEventEntry,
  type CommandFile,
  createCommandFile,
  loadCommandFiles,
  readLines,
  toJsonArray,
} from './command-files.ts'
import { BashEventIndex } from './event-index.ts'
import { encodePageId } from './page-id.ts'

export interface BashEventStoreOptions {
  readonly directory: string
  readonly log: LogFunction
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

export type BashOutputDraft = Pick<BashOutput, 'exit_code' | 'stdout' | 'stderr'>

const interruptedOutput = { exit_code: -1, stdout: null, stderr: 'The server ended while this command ran.' }

/**
 * The commands that were run and their output, each moment once and in order. They survive the end of the process: the first
 * use reads what is there, and ends what was running. Whole commands are removed, the oldest first, and none that runs.
 */
export class BashEventStore implements AsyncDisposable {
  readonly #options: BashEventStoreOptions
  readonly #index = new BashEventIndex()
  readonly #running = new Map<string, FileHandle>()
  #lastInstant = 0
  /** One write at a time, so that what is seen is in order of time. */
  #writeQueue: Promise<unknown> = Promise.resolve()
  #loading: Promise<void> | undefined
  readonly #recoveredIds = new Set<string>()
  readonly #tailSignals = new Set<Signal>()

  constructor(options: BashEventStoreOptions) {
    this.#options = options
  }

  /** Keeps a command that begins; answers its line. A full disk is a Problem `storage_full`. */
  async addCommand(
    draft: Pick<BashCommand, 'command' | 'cwd' | 'timeout'>,
  ): Promise<{ id: string; line: Buffer }> {
    return await this.#runExclusive(async () => {
      const id = newId()
      const instant = this.#nextInstant()
      const kind = 'BashCommand'
      const line = Buffer.from(JSON.stringify({ ...draft, id, timestamp: formatInstant(instant), kind }))
      const { command, file } = await this.#createFile(id, instant, line)
      this.#running.set(id, file)
      this.#addEntry({
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
  async addOutput(commandId: string, order: number, draft: BashOutputDraft): Promise<boolean> {
    return await this.#runExclusive(async () => {
      const isStored = await this.#appendOutput(commandId, order, draft)
      await this.#trim()
      return isStored
    })
  }

  /** The commands that were there at the start. */
  async getRecoveredIds(): Promise<ReadonlySet<string>> {
    await this.#ensureLoaded()
    return this.#recoveredIds
  }

  /** Bytes that are kept of a command. */
  getSizeBytes(commandId: string): number {
    return this.#index.getCommand(commandId)?.sizeBytes ?? 0
  }

  /** One page as JSON: `{"items":[...],"next_page_id":...}`. An unknown page id is a Problem `invalid`. */
  async search({ limit, ...filters }: BashSearchQuery): Promise<Buffer> {
    await this.#prepareRead()
    const { maxPageBytes = 8 * 1024 * 1024 } = this.#options
    const page: BashEventEntry[] = []
    let sizeBytes = 0
    let nextEntry: BashEventEntry | undefined
    for (const entry of this.#index.search(filters)) {
      sizeBytes += entry.size
      if (page.length === limit || (page.length > 0 && sizeBytes > maxPageBytes)) {
        nextEntry = entry
        break
      }
      page.push(entry)
    }
    const lines = (await readLines(page)).filter((line) => line !== undefined)
    const nextPageId = JSON.stringify(nextEntry === undefined ? null : encodePageId(nextEntry))
    return Buffer.concat([
      Buffer.from('{"items":'),
      toJsonArray(lines),
      Buffer.from(`,"next_page_id":${nextPageId}}`),
    ])
  }

  /** The lines of events; undefined for the missing. */
  async get(ids: readonly string[]): Promise<(Buffer | undefined)[]> {
    await this.#prepareRead()
    const entries = ids.map((id) => this.#index.getEntry(id))
    const lines = await readLines(entries.filter((entry) => entry !== undefined))
    return entries.map((entry) => (entry === undefined ? undefined : lines.shift()))
  }

  /** The output of a command that is over, all pieces as one; undefined when it has been removed. */
  async getCombinedOutput(commandId: string): Promise<BashOutput | undefined> {
    const outputs = this.#index.getCommand(commandId)?.entries.slice(1) ?? []
    const lines = await readLines(outputs)
    const chunks = lines.flatMap((line): BashOutput[] =>
      line === undefined ? [] : [JSON.parse(line.toString())],
    )
    const last = chunks.at(-1)
    if (last === undefined || chunks.length < outputs.length) return undefined
    const joinStream = (name: 'stdout' | 'stderr') =>
      chunks.map((chunk) => chunk[name] ?? '').join('') || null
    return { ...last, stdout: joinStream('stdout'), stderr: joinStream('stderr'), kind: last.kind }
  }

  /** Removes the commands that are over; answers how many events that were. */
  async clear(): Promise<number> {
    return await this.#runExclusive(async () => await this.#remove(this.#index.listFinished()))
  }

  /** All lines from the first on, or those that come from now on, in order, each once, until the signal aborts. */
  async *tail(options: { readonly all: boolean; readonly signal: AbortSignal }): AsyncGenerator<Buffer[]> {
    const { all, signal } = options
    await this.#prepareRead()
    const wakeUp = new Signal()
    const notify = () => wakeUp.notify()
    this.#tailSignals.add(wakeUp)
    signal.addEventListener('abort', notify, { once: true })
    let after = all ? 0 : this.#index.lastInstant
    try {
      while (!signal.aborted) {
        const entries = this.#index.entriesAfter(after)
        after = entries.at(-1)?.instant ?? after
        if (entries.length === 0) await wakeUp.wait(60_000)
        else yield (await readLines(entries)).filter((line) => line !== undefined)
      }
    } finally {
      this.#tailSignals.delete(wakeUp)
      signal.removeEventListener('abort', notify)
    }
  }

  /** Nothing can be written any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writeQueue
    for (const file of this.#running.values()) await file.close()
    this.#running.clear()
  }

  async #runExclusive<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#writeQueue.then(() => this.#ensureLoaded()).then(task)
    this.#writeQueue = result.catch(() => {})
    return await result
  }

  async #prepareRead(): Promise<void> {
    await this.#ensureLoaded()
    if (this.#listExpired().length > 0)
      await this.#runExclusive(async () => await this.#remove(this.#listExpired()))
  }

  async #ensureLoaded(): Promise<void> {
    this.#loading ??= this.#load()
    await this.#loading
  }

  async #load(): Promise<void> {
    const { directory, log } = this.#options
    this.#index.addCommands(await loadCommandFiles(directory, log))
    this.#lastInstant = this.#index.lastInstant
    const finished = new Set(this.#index.listFinished())
    for (const command of this.#index.listCommands()) {
      this.#recoveredIds.add(command.id)
      if (finished.has(command)) continue
      try {
        this.#running.set(command.id, await open(command.path, 'a'))
        await this.#appendOutput(command.id, command.entries.length - 1, interruptedOutput)
      } catch (error) {
        log('warn', 'a kept command cannot be ended', { error: errorCode(error) ?? String(error) })
      }
    }
    await this.#trim()
  }

  async #createFile(
    id: string,
    instant: number,
    line: Buffer,
  ): Promise<{ command: CommandFile; file: FileHandle }> {
    try {
      return await createCommandFile(this.#options.directory, { id, instant, line })
    } catch (error) {
      const code = errorCode(error)
      this.#options.log('warn', 'a command cannot be kept', { error: code ?? String(error) })
      if (code === 'ENOSPC' || code === 'EDQUOT') throw new Problem('storage_full', 'The disk is full')
      throw new Problem('unavailable', 'The command cannot be kept')
    }
  }

  async #appendOutput(commandId: string, order: number, draft: BashOutputDraft): Promise<boolean> {
    const command = must(this.#index.getCommand(commandId), 'a command that runs')
    const file = must(this.#running.get(commandId), 'a command that runs')
    const instant = this.#nextInstant()
    const id = newId()
    const { exit_code, stdout, stderr } = draft
    const kind = 'BashOutput'
    const head = { id, timestamp: formatInstant(instant), command_id: commandId, order, exit_code }
    const line = Buffer.from(JSON.stringify({ ...head, stdout, stderr, kind }))
    const isLast = exit_code !== null
    const offset = command.sizeBytes
    const isStored = await this.#writeLine(command, file, line)
    if (isLast) {
      this.#running.delete(commandId)
      await file.close()
    }
    const location = { command, commandId, offset, size: line.length, ...(isStored ? {} : { bytes: line }) }
    if (isStored || isLast) this.#addEntry({ ...location, id, instant, kind, order, isLast })
    return isStored
  }

  async #writeLine(command: CommandFile, file: FileHandle, line: Buffer): Promise<boolean> {
    try {
      await file.appendFile(Buffer.concat([line, Buffer.from('\n')]))
      command.sizeBytes += line.length + 1
      return true
    } catch (error) {
      this.#options.log('warn', 'the output of a command cannot be kept', {
        error: errorCode(error) ?? 'unknown',
      })
      await file.truncate(command.sizeBytes).catch(() => {})
      return false
    }
  }

  #addEntry(entry: BashEventEntry): void {
    this.#index.addEntry(entry)
    for (const signal of this.#tailSignals) signal.notify()
  }

  #listExpired(): CommandFile[] {
    const { retentionMs, now } = this.#options
    if (retentionMs === undefined) return []
    const before = now() - retentionMs * 1000
    return this.#index.listFinished().filter(({ entries }) => must(entries.at(-1), 'an end').instant < before)
  }

  /** Removes what is too old, and as much of the oldest as brings the rest well below the limits. */
  async #trim(): Promise<void> {
    await this.#remove(this.#listExpired())
    const { maxEvents = 50_000, maxBytes = 512 * 1024 * 1024 } = this.#options
    let { eventCount, sizeBytes } = this.#index
    if (eventCount <= maxEvents && sizeBytes <= maxBytes) return
    const removed: CommandFile[] = []
    for (const command of this.#index.listFinished()) {
      if (eventCount <= maxEvents * 0.9 && sizeBytes <= maxBytes * 0.9) break
      removed.push(command)
      eventCount -= command.entries.length
      sizeBytes -= command.sizeBytes
    }
    await this.#remove(removed)
  }

  /** Answers how many events that were. */
  async #remove(commands: readonly CommandFile[]): Promise<number> {
    if (commands.length === 0) return 0
    this.#index.removeCommands(new Set(commands))
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
