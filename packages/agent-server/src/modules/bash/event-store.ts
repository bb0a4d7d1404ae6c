import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type BashCommand,
  type BashOutput,
  type BashSearchQuery,
  formatInstant,
  type Instant,
  type LogFunction,
  Problem,
  storageUnavailableProblem,
} from '@slipway/protocol'
import { Signal, Waiter } from '@slipway/shared/async'
import { errorCode } from '@slipway/shared/fs'
import { errorText } from '@slipway/shared/text'
import {
  type BashEventRow,
  type BashEvents,
  type CompactedFile,
  type CompactOptions,
  openBashEvents,
  type StorageHealth,
} from '@slipway/storage'
import { importCommandFiles } from './import-command-files.ts'
import { encodeBashPageId, instantRange } from './page-id.ts'

export interface BashEventStoreOptions {
  /** Data directory of the server; the events are in `bash.db` in it. */
  readonly directory: string
  readonly log: LogFunction
  /** Of the server's storage. */
  readonly health?: StorageHealth | undefined
  /** Microseconds. */
  readonly now: () => Instant
  /**
   * Commands outside of conversations are removed this long after their end; undefined: never because of
   * their age.
   */
  readonly retentionMs: number | undefined
  /** Above these limits the oldest finished commands are removed; 50,000 and 512 MiB unless passed. */
  readonly maxEvents?: number
  readonly maxBytes?: number
  /** A page ends before it is larger; 8 MiB unless passed. */
  readonly maxPageBytes?: number
}

/** `conversationId`: null for a command outside of conversations. */
export type StoredCommand = Pick<BashEventRow, 'commandId' | 'conversationId'>

export type BashOutputDraft = Pick<BashOutput, 'exit_code' | 'stdout' | 'stderr'>

const databaseName = 'bash.db'
const interruptedOutput = { exit_code: -1, stdout: null, stderr: 'The server ended while this command ran.' }
const maxTailEvents = 50
const maxTailBytes = 1024 * 1024
const commandsPerTransaction = 20
/** How long a file that cannot be opened is not tried again. */
const refusalMicros = 5_000_000

/**
 * Events of `/api/bash` and of the same routes of conversations, in order of time. They survive a restart,
 * which ends the running commands. Removal is by whole finished commands, the oldest first.
 */
export class BashEventStore implements AsyncDisposable {
  readonly #options: BashEventStoreOptions
  readonly #added = new Signal()
  #opening: Promise<BashEvents> | undefined
  /** Of the last attempt to open the file, which may examine all of it. */
  #refusal: { readonly error: unknown; readonly until: Instant } | undefined
  #lastInstant = 0

  constructor(options: BashEventStoreOptions) {
    this.#options = options
  }

  /**
   * Stores the start of a command; returns its event as JSON. A Problem `storage_full` when the disk is full.
   */
  async addCommand(
    draft: Pick<BashCommand, 'command' | 'cwd' | 'timeout'>,
    conversationId: string | null = null,
  ): Promise<{ id: string; line: Buffer }> {
    const events = await this.#open()
    const id = newId()
    const instant = this.#nextInstant()
    const line = toJson({ ...draft, id, timestamp: formatInstant(instant), kind: 'BashCommand' })
    try {
      events.add([{ instant, id, commandId: id, conversationId, order: -1, isLast: false, body: line }])
    } catch (error) {
      this.#options.log('warn', 'a command cannot be stored', { error: errorCode(error) ?? errorText(error) })
      throw error instanceof Problem ? error : new Problem('unavailable', 'The command cannot be stored')
    }
    this.#added.notify()
    await this.#trim(events)
    return { id, line }
  }

  /**
   * Stores a piece of output; the piece with an exit code ends the command. Returns the stored bytes, or
   * undefined when the disk is full: then only a last piece stays, in memory.
   */
  async addOutput(
    command: StoredCommand,
    order: number,
    draft: BashOutputDraft,
  ): Promise<number | undefined> {
    const events = await this.#open()
    const storedBytes = this.#addOutput(events, command, order, draft)
    await this.#trim(events)
    return storedBytes
  }

  /** One page as JSON: `{"items":[...],"next_page_id":...}`. An unknown page id is a Problem `invalid`. */
  async search(query: BashSearchQuery, conversationId: string | null = null): Promise<Buffer> {
    const events = await this.#open()
    const { from, to } = instantRange(query, (id) => events.get(id)?.instant)
    const range = {
      conversationId,
      commandId: query.command_id__eq,
      kind: query.kind__eq,
      orderAfter: query.order__gt,
      isDescending: query.sort_order === 'TIMESTAMP_DESC',
      from,
      to,
    }
    const { maxPageBytes = 8 * 1024 * 1024 } = this.#options
    const { items, next } = readPage(events.read(range), query.limit, maxPageBytes)
    const nextPageId = JSON.stringify(next === undefined ? null : encodeBashPageId(next))
    return Buffer.concat([
      Buffer.from('{"items":'),
      toJsonArray(items.map(({ body }) => body)),
      Buffer.from(`,"next_page_id":${nextPageId}}`),
    ])
  }

  async get(ids: readonly string[], conversationId: string | null = null): Promise<(Buffer | undefined)[]> {
    const events = await this.#open()
    return ids.map((id) => {
      const event = events.get(id)
      return event?.conversationId === conversationId ? event.body : undefined
    })
  }

  /** The output of a finished command, all pieces as one; undefined when it has been removed. */
  async getCombinedOutput(commandId: string): Promise<BashOutput | undefined> {
    const events = await this.#open()
    const rows = [...events.read({ commandId, kind: 'BashOutput' })]
    const chunks = rows.map(({ body }): BashOutput => JSON.parse(body.toString()))
    const last = chunks.at(-1)
    if (last === undefined) return undefined
    const joinStream = (name: 'stdout' | 'stderr') =>
      chunks.map((chunk) => chunk[name] ?? '').join('') || null
    return { ...last, stdout: joinStream('stdout'), stderr: joinStream('stderr'), kind: last.kind }
  }

  /** Removes the finished commands; answers how many events that were. */
  async clear(conversationId: string | null = null): Promise<number> {
    const events = await this.#open()
    return await removeCommands(events, events.finished({ conversationId }))
  }

  /** Removes the finished commands of a conversation that is gone; a failure is logged. */
  async removeConversation(conversationId: string): Promise<void> {
    const { directory, log } = this.#options
    if (this.#opening === undefined && !existsSync(join(directory, databaseName))) return
    try {
      await this.clear(conversationId)
    } catch (error) {
      log('warn', 'the commands of a conversation cannot be removed', {
        error: errorCode(error) ?? errorText(error),
      })
    }
  }

  /**
   * The events of no conversation as JSON, all or those from now on, in order, each once, until the signal
   * aborts.
   */
  async *tail(options: { readonly all: boolean; readonly signal: AbortSignal }): AsyncGenerator<Buffer[]> {
    const events = await this.#open()
    let from = options.all ? 0 : this.#lastInstant + 1
    using waiter = new Waiter(options.signal)
    while (!options.signal.aborted) {
      const { version } = this.#added
      const { items } = readPage(events.read({ from, conversationId: null }), maxTailEvents, maxTailBytes)
      from = (items.at(-1)?.instant ?? from - 1) + 1
      if (items.length === 0) await this.#added.wait(version, waiter)
      else yield items.map(({ body }) => body)
    }
  }

  /** Gives the free space of its file back; undefined when there is no file. */
  async compact(options: CompactOptions): Promise<CompactedFile | undefined> {
    const isThere = existsSync(join(this.#options.directory, databaseName))
    return isThere ? await (await this.#open()).compactInSteps(options) : undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const events = await this.#opening?.catch(() => undefined)
    events?.[Symbol.dispose]()
  }

  /** Every use removes the commands that are too old by then. */
  async #open(): Promise<BashEvents> {
    const { retentionMs, now } = this.#options
    const refusal = this.#refusal
    // The clock may have gone back.
    if (refusal !== undefined && now() < refusal.until && now() >= refusal.until - refusalMicros)
      throw refusal.error
    this.#opening ??= this.#load().catch((error: unknown) => {
      this.#opening = undefined
      if (error instanceof Problem) throw error
      const reason = errorText(error)
      this.#options.log('error', 'commands cannot be stored', { error: reason })
      const problem = storageUnavailableProblem(`Commands cannot be stored: ${reason}`, error)
      this.#refusal = { error: problem, until: now() + refusalMicros }
      throw problem
    })
    const events = await this.#opening
    if (retentionMs === undefined) return events
    const endedBefore = now() - retentionMs * 1000
    await removeCommands(events, events.finished({ endedBefore, conversationId: null }))
    return events
  }

  async #load(): Promise<BashEvents> {
    const { directory, log, health } = this.#options
    const events = openBashEvents(join(directory, databaseName), health)
    try {
      await importCommandFiles(join(directory, 'bash'), events, log)
    } catch (error) {
      events[Symbol.dispose]()
      throw error
    }
    this.#lastInstant = events.lastInstant
    const unfinished = events.unfinished()
    for (const command of unfinished) this.#addOutput(events, command, command.nextOrder, interruptedOutput)
    await this.#trim(events)
    return events
  }

  #addOutput(
    events: BashEvents,
    { commandId, conversationId }: StoredCommand,
    order: number,
    { exit_code, stdout, stderr }: BashOutputDraft,
  ): number | undefined {
    const instant = this.#nextInstant()
    const id = newId()
    const head = { id, timestamp: formatInstant(instant), command_id: commandId, order, exit_code }
    const body = toJson({ ...head, stdout, stderr, kind: 'BashOutput' })
    const isLast = exit_code !== null
    const event = { instant, id, commandId, conversationId, order, isLast, body }
    try {
      events.add([event])
      return body.length
    } catch (error) {
      this.#options.log('warn', 'the output of a command cannot be stored', {
        error: errorCode(error) ?? errorText(error),
      })
      if (isLast) events.addInMemory(event)
      return undefined
    } finally {
      this.#added.notify()
    }
  }

  /** Above a limit, removes as many of the oldest commands as bring the rest well below the limits. */
  async #trim(events: BashEvents): Promise<void> {
    const { maxEvents = 50_000, maxBytes = 512 * 1024 * 1024 } = this.#options
    let { count, sizeBytes } = events.totals
    if (count <= maxEvents && sizeBytes <= maxBytes) return
    const removed: { readonly commandId: string }[] = []
    for (const command of events.finished()) {
      if (count <= maxEvents * 0.9 && sizeBytes <= maxBytes * 0.9) break
      removed.push(command)
      count -= command.count
      sizeBytes -= command.sizeBytes
    }
    await removeCommands(events, removed)
  }

  /** Later than all instants before it, even when the clock goes back. */
  #nextInstant(): Instant {
    this.#lastInstant = Math.max(this.#options.now(), this.#lastInstant + 1)
    return this.#lastInstant
  }
}

/** A JSON array of events, null for the missing. */
export function toJsonArray(events: readonly (Buffer | undefined)[]): Buffer {
  const parts = events.flatMap((event, index) => [
    Buffer.from(index === 0 ? '' : ','),
    event ?? Buffer.from('null'),
  ])
  return Buffer.concat([Buffer.from('['), ...parts, Buffer.from(']')])
}

/** The first events, at least one if there is any, and the one after them. */
function readPage(
  events: Iterable<BashEventRow>,
  limit: number,
  maxBytes: number,
): { readonly items: readonly BashEventRow[]; readonly next?: BashEventRow } {
  const items: BashEventRow[] = []
  let sizeBytes = 0
  for (const event of events) {
    sizeBytes += event.body.length
    if (items.length === limit || (items.length > 0 && sizeBytes > maxBytes)) return { items, next: event }
    items.push(event)
  }
  return { items }
}

/** Answers how many events that were. The event loop runs between two transactions. */
async function removeCommands(
  events: BashEvents,
  commands: readonly { readonly commandId: string }[],
): Promise<number> {
  let count = 0
  for (let start = 0; start < commands.length; start += commandsPerTransaction) {
    if (start > 0) await nextTurn()
    const group = commands.slice(start, start + commandsPerTransaction)
    count += events.remove(group.map(({ commandId }) => commandId))
  }
  if (count > 0) events.compact()
  return count
}

function toJson(value: object): Buffer {
  return Buffer.from(JSON.stringify(value))
}

function newId(): string {
  return randomUUID().replaceAll('-', '')
}
