import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Instant, type LogFunction, must } from '@slipway/protocol'
import type { Metric } from '@slipway/shared/metrics'
import { DocumentRows } from '../control-plane/stores/documents.ts'
import type { ConversationRecords } from '../conversations/conversation-records.ts'
import { ImportLocks } from '../conversations/import-locks.ts'
import type { ImportSession } from '../conversations/import-session.ts'
import type { Storage } from '../conversations/storage.ts'
import type { Deliveries } from '../deliveries/deliveries.ts'
import type { DocumentStore } from '../documents/document-store.ts'
import { DamageReport } from '../event-log/damage-report.ts'
import { LiveTails } from '../event-log/live-tails.ts'
import { ChangeQueue } from './control-plane/change-queue.ts'
import { SqliteSession } from './control-plane/session.ts'
import { SqliteConversationRecords } from './conversations/conversation-records.ts'
import { startImport } from './conversations/import-session.ts'
import { Purge } from './conversations/purge.ts'
import { CommitQueue } from './database/commit-queue.ts'
import type { Database } from './database/database.ts'
import { DirectoryLock } from './database/directory-lock.ts'
import { HighWaterMark } from './database/high-water-mark.ts'
import { advice, assertNotBehindIndex, assertSameLog, readIdentity } from './database/log-identity.ts'
import { makeDataDirectory } from './database/open-failure.ts'
import type { CompactedFile, CompactOptions } from './database/reclaim-space.ts'
import { isDamaged } from './database/storage-failure.ts'
import { recoverDatabase, StorageHealth } from './database/storage-health.ts'
import { SqliteDeliveries } from './deliveries/deliveries.ts'
import { SqliteEventLog, type StorageContext } from './event-log/event-log.ts'
import { EventRows } from './event-log/event-rows.ts'
import { IndexGuard } from './event-log/index-check.ts'
import { keyFinerDigits } from './event-log/key-finer-digits.ts'
import { KindSourceIndex } from './event-log/kind-source-index.ts'
import { LogHeads } from './event-log/log-heads.ts'
import { LimitGuard, type StorageLimits } from './event-log/storage-limits.ts'
import { TextIndex } from './event-log/text-index.ts'
import { nextStep, openLog } from './open-log.ts'

interface StorageOptions {
  /**
   * Created when it is missing. `log.db` is the data; `index.db` is a cache that may be deleted while the
   * server is down; `lock.db` excludes a second process.
   */
  readonly directory: string
  readonly log?: LogFunction
  /** Of stored events; none unless passed. */
  readonly limits?: StorageLimits | undefined
  /** The clock, in microseconds. */
  readonly now?: () => Instant
}

/** Opens the storage of a directory. Rejects with a plain Error when another process has it open. */
export async function openStorage({
  directory,
  log = () => {},
  limits,
  now = () => Date.now() * 1000,
}: StorageOptions) {
  await makeDataDirectory(directory)
  const lock = await DirectoryLock.acquire(directory)
  try {
    const { path, indexPath, db, mark } = openMarkedLog(directory, lock, log)
    const kindSources = new KindSourceIndex(db)
    const damage = new DamageReport(log)
    const text = new TextIndex({ logPath: path, indexPath, log, durable: db.durable })
    const indexes = new IndexGuard({
      db,
      checkElsewhere: (group, compared) => text.areIndexesRight(group, compared),
      onDamage: (error) => damage.add(error),
    })
    const events = new EventRows(
      db,
      kindSources,
      now,
      (error) => damage.add(error),
      (ordinal) => indexes.trust(ordinal),
    )
    const heads = new LogHeads(db, now, { mark, verifyEnd: events.verifyEnd.bind(events) })
    const health = new StorageHealth(directory, log)
    const reopen = () => {
      // In place it stays open for reads, and so does the lock.
      if (!db.isOpen || !db.isInPlace) {
        lock.release()
        mark.close()
        db.close()
        lock.acquire()
      }
      db.reopen(() => mark.reopen(identityOf(db), db))
    }
    const recover = async () => {
      // The handles of its thread may belong to a device that is gone.
      await recoverDatabase(db, reopen, () => text.pause()).finally(() => text.resume())
      indexes.forget()
      writer.reload()
      components.deliveries.reload()
      components.liveTails.notifyAll()
    }
    const logHealth = health.add(db, recover, 'conversation')
    const writer: CommitQueue = new CommitQueue(db, 'log', logHealth, [heads, kindSources])
    const components = {
      liveTails: new LiveTails(),
      importLocks: new ImportLocks(),
      deliveries: new SqliteDeliveries(db, writer),
    }
    return new SqliteStorage(
      {
        ...{ db, writer, heads, events, indexes, kindSources, text, mark, damage, health, now, log },
        ...components,
        limits: limits && new LimitGuard(db, limits),
      },
      lock,
    )
  } catch (error) {
    lock[Symbol.dispose]()
    if (!isDamaged(error)) throw error
    const path = join(directory, 'log.db')
    throw new Error(`${path} is damaged. ${nextStep(path)}`, { cause: error })
  }
}

/** The log with its mark, when it is the one that the other files of the directory know. */
function openMarkedLog(directory: string, lock: DirectoryLock, log: LogFunction) {
  const [path, markPath, indexPath] = ['log.db', 'log.mark', 'index.db'].map((name) =>
    join(directory, name),
  ) as [string, string, string]
  const known = lock.readIdentity()
  const others = [markPath, indexPath].filter(existsSync)
  assertLogIsThere(path, others[0] ?? (known && lock.path))
  const db = openLog(path, log)
  keyFinerDigits(db)
  const identity = identityOf(db)
  const mark = new HighWaterMark(markPath, identity, db, log)
  if (!mark.isKnown) assertNotBehindIndex(path, db, identity, indexPath)
  if (known !== undefined) assertSameLog(path, identity, lock.path, known)
  if (known?.generation !== identity.generation) lock.writeIdentity(identity)
  return { path, indexPath, db, mark }
}

function identityOf(db: Database) {
  return must(readIdentity(db), 'the identity of the log')
}

/** A start with an empty log would hide that all conversations are gone. */
function assertLogIsThere(path: string, other: string | undefined): void {
  const size = statSync(path, { throwIfNoEntry: false })?.size
  if (size || other === undefined) return
  throw new Error(
    `${path} is ${size === undefined ? 'missing' : 'empty'}, but ${other} is there. ${advice(path)} --empty`,
  )
}

/** Storage on SQLite files of one directory. */
export class SqliteStorage implements Storage {
  readonly log: SqliteEventLog
  readonly conversations: ConversationRecords
  readonly deliveries: Deliveries
  readonly documents: DocumentStore
  /** Whether the log, and what is added to it, can be written. */
  readonly health: StorageHealth
  readonly #lock: DirectoryLock
  readonly #context: StorageContext
  readonly #purge: Purge

  constructor(context: StorageContext, lock: DirectoryLock) {
    this.#context = context
    this.#lock = lock
    this.#purge = new Purge(context)
    this.log = new SqliteEventLog(context)
    this.conversations = new SqliteConversationRecords(context, this.#purge)
    this.deliveries = context.deliveries
    const { db, writer } = context
    this.documents = new DocumentRows(new SqliteSession(db, new ChangeQueue(db, writer)))
    this.health = context.health
    this.#purge.resume()
  }

  startImport(conversation: string): Promise<ImportSession> {
    return startImport(this.#context, this.#purge, conversation)
  }

  waitUntilIndexed(): Promise<void> {
    return this.#context.text.waitUntilIndexed()
  }

  overwriteRemoved(): Promise<void> {
    return this.#purge.overwriteRemoved()
  }

  async compact(options: CompactOptions): Promise<readonly CompactedFile[]> {
    const log = await this.#purge.compact(options)
    const index = await this.#context.text.compact(options.maxMs)
    return [log, ...(index === undefined ? [] : [index])]
  }

  releaseMemory(): void {
    this.log.releaseMemory()
    this.#context.db.releaseMemory()
    this.#context.text.endIdleThread()
  }

  get metrics(): readonly Metric[] {
    const { writer, damage, health } = this.#context
    return [...writer.metrics.all, damage.reads, ...health.metrics]
  }

  /** SQLite settings of log.db, for tests. */
  pragmas(): { readonly journal_mode: unknown; readonly synchronous: unknown } {
    const { db } = this.#context
    return { journal_mode: db.pragma('journal_mode'), synchronous: db.pragma('synchronous') }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.health.close()
    const written = this.#context.writer.close()
    this.log.close()
    // A purge may wait for the index, which stops without finishing: both continue after the next open.
    const purged = this.#purge.close()
    await written
    await this.#context.text.close()
    await purged
    this.#context.db.close()
    this.#context.mark.close()
    this.#lock[Symbol.dispose]()
  }
}
