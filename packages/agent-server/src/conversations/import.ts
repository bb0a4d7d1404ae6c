import { randomUUID } from 'node:crypto'
import { type Fault, faultsOf, importMeta, Problem } from '@slipway/protocol'
import {
  eventFaults,
  type Import,
  parseLine,
  type ReceivedEvent,
  received,
  type Storage,
  statedStatus,
} from '@slipway/storage'
import { type Line, LineTooLong, lines } from './split-lines.ts'

const maxLineBytes = 64 * 1024 * 1024
const batchEvents = 500
const batchBytes = 2 * 1024 * 1024

export interface Imported {
  readonly conversation_id: string
  /** Events of the stream that stand in the log now, also those that stood there before. */
  readonly imported: number
}

/**
 * Reads one event a line and stores all of them or none (spec 2, closed records). With `keep`, events of other
 * versions are taken as they are. The first line may be an object without `kind` that names the conversation.
 * A bad line is a Problem `invalid` with `loc` `["body", line number, ...place]`.
 */
export async function importEvents(
  storage: Storage,
  stream: AsyncIterable<Buffer>,
  options: { readonly keep: boolean; readonly now: () => number },
): Promise<Imported> {
  const run = new Run(storage, options)
  try {
    for await (const batch of lines(stream, maxLineBytes)) for (const line of batch) await run.take(line)
    return await run.finish()
  } catch (error) {
    await run.abort()
    if (error instanceof LineTooLong) {
      throw badLine(error.line, [
        { loc: [], msg: `Line is longer than ${maxLineBytes} bytes`, type: 'too_long' },
      ])
    }
    throw error
  }
}

/** One import under way: its session with the log, opened at the first line, and the batch that is being filled. */
class Run {
  readonly #storage: Storage
  readonly #options: { readonly keep: boolean; readonly now: () => number }
  #id: string = randomUUID()
  #meta: { title?: string | undefined; tags?: Record<string, string> | undefined } = {}
  #session: Import | undefined
  #isFirst = true
  #batch: { line: number; event: ReceivedEvent }[] = []
  #batchBytes = 0
  #lastInstant: number | undefined
  #count = 0
  #status: string | undefined

  constructor(storage: Storage, options: { readonly keep: boolean; readonly now: () => number }) {
    this.#storage = storage
    this.#options = options
  }

  async take(line: Line): Promise<void> {
    const isFirst = this.#isFirst
    this.#isFirst = false
    const bytes = isFirst ? withoutMark(line.bytes) : line.bytes
    const parsed = parseLine(bytes)
    if (parsed.kind === 'faults') throw badLine(line.number, parsed.faults)
    const { value } = parsed
    if (isFirst && !Object.hasOwn(value, 'kind')) return this.#takeMeta(line.number, value)
    const faults = eventFaults(value, this.#options.keep)
    if (faults.length > 0) throw badLine(line.number, faults)
    await this.#open()
    const event = received(bytes, value, {
      keep: this.#options.keep,
      lastInstant: this.#lastInstant,
      now: this.#options.now(),
    })
    this.#lastInstant = event.instant
    this.#status = statedStatus(value) ?? this.#status
    this.#batch.push({ line: line.number, event })
    this.#batchBytes += event.bytes.length
    if (this.#batch.length >= batchEvents || this.#batchBytes >= batchBytes) await this.#flush()
  }

  async finish(): Promise<Imported> {
    const session = await this.#open()
    await this.#flush()
    const { title, tags } = this.#meta
    await session.publish({
      ...(title === undefined ? {} : { title }),
      ...(tags === undefined ? {} : { tags }),
      ...(this.#status === undefined ? {} : { status: atRest(this.#status) }),
    })
    return { conversation_id: this.#id, imported: this.#count }
  }

  async abort(): Promise<void> {
    await this.#session?.abort()
  }

  #takeMeta(line: number, value: Record<string, unknown>): void {
    const result = importMeta.safeParse(value)
    if (!result.success) throw badLine(line, faultsOf(result.error, [], value))
    this.#id = result.data.conversation_id ?? this.#id
    this.#meta = result.data
  }

  async #open(): Promise<Import> {
    if (this.#session === undefined) {
      this.#session = await this.#storage.startImport(this.#id)
      this.#lastInstant = this.#session.lastInstant
    }
    return this.#session
  }

  async #flush(): Promise<void> {
    const batch = this.#batch
    const session = await this.#open()
    this.#batch = []
    this.#batchBytes = 0
    if (batch.length === 0) return
    try {
      await session.add(batch.map(({ event }) => event))
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'conflict') throw error
      throw await this.#conflict(session, batch, error)
    }
    this.#count += batch.length
  }

  /** Finds the line of a batch that was refused as a whole: the import ends anyway, so the rest may go in one by one. */
  async #conflict(
    session: Import,
    batch: { line: number; event: ReceivedEvent }[],
    refused: Problem,
  ): Promise<Problem> {
    for (const { line, event } of batch) {
      try {
        await session.add([event])
      } catch {
        return new Problem('conflict', `line ${line}: ${refused.message}`)
      }
    }
    return refused
  }
}

/** Nothing runs in a conversation that was just imported, whatever its last recorded status says. */
function atRest(status: string): string {
  return status === 'running' || status === 'waiting_for_confirmation' || status === 'deleting'
    ? 'paused'
    : status
}

function badLine(line: number, faults: readonly Fault[]): Problem {
  return new Problem(
    'invalid',
    `line ${line} is refused`,
    faults.map((fault) => ({
      ...fault,
      loc: ['body', line, ...fault.loc],
      msg: `line ${line}: ${fault.msg}`,
    })),
  )
}

/** A byte order mark in front of the first line is no part of it. */
function withoutMark(bytes: Buffer): Buffer {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
}
