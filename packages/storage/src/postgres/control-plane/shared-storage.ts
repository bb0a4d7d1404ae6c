import { setTimeout as pause } from 'node:timers/promises'
import type { Problem } from '@slipway/protocol'
import type { Metric } from '@slipway/shared/metrics'
import type { ConversationRecords } from '../../conversations/conversation-records.ts'
import type { Storage } from '../../conversations/storage.ts'
import type { Deliveries } from '../../deliveries/deliveries.ts'
import type { EventLog } from '../../event-log/event-log.ts'
import { PostgresDatabase } from '../database/database.ts'
import { lockName } from '../database/lock-name.ts'
import { openPostgresStorage, type PostgresStorage } from '../storage.ts'

type Options = Omit<Parameters<typeof openPostgresStorage>[0], 'isControlPlane'>

const beginSql = `SET LOCAL idle_in_transaction_session_timeout = '15s';
  SELECT pg_advisory_xact_lock(${lockName('log')})`
/** Between two looks of a tail. */
const tailMs = 500
const tailEvents = 1_000

interface Waiting {
  /** Never rejects. */
  run(): Promise<void>
  reject(error: unknown): void
}

/** Logs that several servers of a control plane write. See `SharedPostgresStorage`. */
export async function openSharedPostgresStorage(options: Options): Promise<SharedPostgresStorage> {
  const storage = await openPostgresStorage({ ...options, isControlPlane: true })
  return new SharedPostgresStorage(storage, new PostgresDatabase(options.url, options.log ?? (() => {})))
}

/**
 * One server writes at a time, whichever it is: it holds a lock, and reads the ends of the logs with the lock
 * held. What waits meanwhile shares the next turn. A server that freezes loses the lock with its connection;
 * the ends of logs are checked in each transaction besides. Reads have no cache.
 */
export class SharedPostgresStorage implements Storage {
  readonly log: EventLog
  readonly conversations: ConversationRecords
  readonly deliveries: Deliveries
  readonly #storage: PostgresStorage
  readonly #locks: PostgresDatabase
  #waiting: Waiting[] = []
  #turns: Promise<void> | undefined

  constructor(storage: PostgresStorage, locks: PostgresDatabase) {
    this.#storage = storage
    this.#locks = locks
    this.deliveries = storage.deliveries
    this.log = this.#createLog(storage.log)
    this.conversations = this.#createRecords(storage.conversations)
  }

  get problem(): Problem | undefined {
    return this.#storage.problem
  }

  get metrics(): readonly Metric[] {
    return this.#storage.metrics
  }

  async startImport(): Promise<never> {
    throw new Error('A control plane imports nothing')
  }

  waitUntilIndexed(): Promise<void> {
    return this.#storage.waitUntilIndexed()
  }

  overwriteRemoved(): Promise<void> {
    return this.#storage.overwriteRemoved()
  }

  releaseMemory(): void {
    this.#storage.releaseMemory()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#turns
    await this.#storage[Symbol.asyncDispose]()
    await this.#locks.close()
  }

  #createLog(log: EventLog): EventLog {
    const read = (...input: Parameters<EventLog['read']>) => this.#fresh(() => log.read(...input))
    return {
      append: (...input) => this.#write(() => log.append(...input)),
      read,
      search: (...input) => this.#fresh(() => log.search(...input), true),
      count: (...input) => this.#fresh(() => log.count(...input), true),
      get: (...input) => this.#fresh(() => log.get(...input)),
      async *tail(conversation, after, signal) {
        for (let position = after; !signal.aborted; ) {
          const events = await read(conversation, position, tailEvents)
          position = events.at(-1)?.position ?? position
          if (events.length > 0) yield events
          else await pause(tailMs, undefined, { signal }).catch(() => undefined)
        }
      },
    }
  }

  #createRecords(records: ConversationRecords): ConversationRecords {
    return {
      create: (record) => this.#write(() => records.create(record)),
      patch: (id, update) => this.#write(() => records.patch(id, update)),
      saveSnapshot: (id, snapshot) => this.#write(() => records.saveSnapshot(id, snapshot)),
      remove: (id) => this.#write(() => records.remove(id)),
      get: (ids) => records.get(ids),
      search: (query) => records.search(query),
      count: (filter) => records.count(filter),
      sumBytes: (ids) => records.sumBytes(ids),
      listChildren: (ids) => records.listChildren(ids),
      getSealedState: (id) => records.getSealedState(id),
    }
  }

  async #fresh<T>(work: () => Promise<T>, withKinds = false): Promise<T> {
    await this.#storage.refresh({ withKinds })
    return await work()
  }

  #write<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ run: () => work().then(resolve, reject), reject })
      this.#turns ??= this.#runTurns()
    })
  }

  async #runTurns(): Promise<void> {
    await new Promise(setImmediate)
    while (this.#waiting.length > 0) {
      const turn: Waiting[] = []
      try {
        await this.#locks.transaction(beginSql, async () => {
          await this.#storage.refresh({ withKinds: true })
          turn.push(...this.#waiting.splice(0))
          await Promise.all(turn.map(({ run }) => run()))
        })
      } catch (error) {
        // Calls that have begun have their own results.
        if (turn.length === 0) for (const { reject } of this.#waiting.splice(0)) reject(error)
      }
    }
    this.#turns = undefined
  }
}
