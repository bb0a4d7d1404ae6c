import { randomUUID } from 'node:crypto'
import { importMeta, type Moment, Problem, type ValidationIssue, validationIssues } from '@slipway/protocol'
import { definedMembers, isRecord } from '@slipway/shared/json'
import {
  duplicateIssues,
  eventIssues,
  type ImportSession,
  parseEventLine,
  type ReceivedEvent,
  readExecutionStatus,
  type Storage,
  toReceivedEvent,
} from '@slipway/storage'
import { type Line, LineTooLongError, splitLines } from '../split-lines.ts'

const maxLineBytes = 64 * 1024 * 1024
const batchEvents = 500
const batchBytes = 2 * 1024 * 1024

interface ImportOptions {
  readonly keep: boolean
  readonly now: () => number
}

interface ImportResult {
  readonly conversation_id: string
  /** Events of the stream that are in the log now, including those stored before. */
  readonly imported: number
}

/**
 * Imports one event a line, all or none (spec 2, closed records). `keep` stores events of other versions
 * unchanged. The first line may be conversation metadata without `kind`. A bad line is a Problem `invalid`
 * with `loc` `["body", line number, ...place]`.
 */
export async function importEvents(
  storage: Storage,
  stream: AsyncIterable<Buffer>,
  options: ImportOptions,
): Promise<ImportResult> {
  const run = new ImportRun(storage, options)
  try {
    for await (const batch of splitLines(stream, maxLineBytes))
      for (const line of batch) await run.addLine(line)
    return await run.finish()
  } catch (error) {
    await run.abort()
    if (error instanceof LineTooLongError) {
      throw lineProblem(error.line, [
        { loc: [], msg: `Line is longer than ${maxLineBytes} bytes`, type: 'too_long' },
      ])
    }
    throw error
  }
}

/** A running import: its session with the log, opened at the first line, and the current batch. */
class ImportRun {
  readonly #storage: Storage
  readonly #options: ImportOptions
  #id: string = randomUUID()
  #meta: { title?: string | undefined; tags?: Record<string, string> | undefined } = {}
  #session: ImportSession | undefined
  #isFirst = true
  #batch: { line: number; event: ReceivedEvent }[] = []
  #batchBytes = 0
  #last: Moment | undefined
  #count = 0
  #status: string | undefined
  /** How the last run ended, by its events: logs of others have no updates of the status. */
  #end: string | undefined

  constructor(storage: Storage, options: ImportOptions) {
    this.#storage = storage
    this.#options = options
  }

  async addLine(line: Line): Promise<void> {
    const isFirst = this.#isFirst
    this.#isFirst = false
    const bytes = isFirst ? stripByteOrderMark(line.bytes) : line.bytes
    const parsed = parseEventLine(bytes)
    if (parsed.kind === 'issues') throw lineProblem(line.number, parsed.issues)
    const { value, hasDuplicate } = parsed
    const { keep } = this.#options
    if (hasDuplicate && !keep) throw lineProblem(line.number, withHint(duplicateIssues(bytes)))
    if (isFirst && !Object.hasOwn(value, 'kind')) return this.#readMeta(line.number, value)
    const issues = eventIssues(value, keep)
    const isTakenByKeep = !keep && issues.length > 0 && eventIssues(value, true).length === 0
    if (issues.length > 0) throw lineProblem(line.number, isTakenByKeep ? withHint(issues) : issues)
    await this.#getSession()
    const event = toReceivedEvent(bytes, value, {
      keep,
      last: this.#last,
      now: this.#options.now(),
    })
    this.#last = event
    this.#status = readExecutionStatus(value) ?? this.#status
    this.#end = endOfRun(value) ?? (continuesRun(value) ? undefined : this.#end)
    this.#batch.push({ line: line.number, event })
    this.#batchBytes += event.bytes.length
    if (this.#batch.length >= batchEvents || this.#batchBytes >= batchBytes) await this.#flush()
  }

  async finish(): Promise<ImportResult> {
    const session = await this.#getSession()
    await this.#flush()
    const { title, tags } = this.#meta
    const status = this.#status ?? this.#end
    await session.publish(definedMembers({ title, tags, status: status && statusAfterImport(status) }))
    return { conversation_id: this.#id, imported: this.#count }
  }

  async abort(): Promise<void> {
    await this.#session?.abort()
  }

  #readMeta(line: number, value: Record<string, unknown>): void {
    const result = importMeta.safeParse(value)
    if (!result.success) throw lineProblem(line, validationIssues(result.error, [], value))
    this.#id = result.data.conversation_id ?? this.#id
    this.#meta = result.data
  }

  async #getSession(): Promise<ImportSession> {
    if (this.#session === undefined) {
      this.#session = await this.#storage.startImport(this.#id)
      this.#last = this.#session.last
    }
    return this.#session
  }

  async #flush(): Promise<void> {
    const batch = this.#batch
    const session = await this.#getSession()
    this.#batch = []
    this.#batchBytes = 0
    if (batch.length === 0) return
    try {
      await session.add(batch.map(({ event }) => event))
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'conflict') throw error
      throw await this.#findConflict(session, batch, error)
    }
    this.#count += batch.length
  }

  /** Finds the bad line of a refused batch by adding its lines one by one; the import fails anyway. */
  async #findConflict(
    session: ImportSession,
    batch: { line: number; event: ReceivedEvent }[],
    problem: Problem,
  ): Promise<Problem> {
    for (const { line, event } of batch) {
      try {
        await session.add([event])
      } catch {
        return new Problem('conflict', `line ${line}: ${problem.message}`)
      }
    }
    return problem
  }
}

function endOfRun({ kind, observation }: Readonly<Record<string, unknown>>): string | undefined {
  if (kind === 'ConversationErrorEvent') return 'error'
  const isFinish = isRecord(observation) && observation.kind === 'FinishObservation'
  return kind === 'ObservationEvent' && isFinish ? 'finished' : undefined
}

function continuesRun({ kind }: Readonly<Record<string, unknown>>): boolean {
  return kind === 'MessageEvent' || kind === 'ActionEvent'
}

/** Nothing runs in a conversation that was just imported, whatever its last recorded status says. */
function statusAfterImport(status: string): string {
  return status === 'running' || status === 'waiting_for_confirmation' || status === 'deleting'
    ? 'paused'
    : status
}

/** Events of other versions are refused by default: the first issue says how they are taken. */
function withHint([first, ...rest]: readonly ValidationIssue[]): readonly ValidationIssue[] {
  if (first === undefined) return rest
  return [{ ...first, msg: `${first.msg}. Events of other versions are taken with ?unknown=keep` }, ...rest]
}

function lineProblem(line: number, issues: readonly ValidationIssue[]): Problem {
  return new Problem(
    'invalid',
    `line ${line} is refused`,
    issues.map((issue) => ({
      ...issue,
      loc: ['body', line, ...issue.loc],
      msg: `line ${line}: ${issue.msg}`,
    })),
  )
}

/** The first line may start with a byte order mark. */
function stripByteOrderMark(bytes: Buffer): Buffer {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
}
