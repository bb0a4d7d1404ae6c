import { randomInt } from 'node:crypto'
import { type Instant, type LogFunction, type Problem, storageUnavailableProblem } from '@slipway/protocol'
import type { Metric } from '@slipway/shared/metrics'
import { DocumentRows } from '../control-plane/stores/documents.ts'
import type { ConversationRecords } from '../conversations/conversation-records.ts'
import { ImportLocks } from '../conversations/import-locks.ts'
import type { ImportSession } from '../conversations/import-session.ts'
import type { Storage } from '../conversations/storage.ts'
import type { Deliveries } from '../deliveries/deliveries.ts'
import type { DocumentStore } from '../documents/document-store.ts'
import { DamageReport } from '../event-log/damage-report.ts'
import { KindSourceNumbers } from '../event-log/kind-source-numbers.ts'
import { LiveTails } from '../event-log/live-tails.ts'
import { PostgresConversationRecords } from './conversations/conversation-records.ts'
import { startImport } from './conversations/import-session.ts'
import { Purge } from './conversations/purge.ts'
import { assertUse, findUse } from './database/assert-use.ts'
import { maxConnections, PostgresDatabase, type Session } from './database/database.ts'
import { lockName } from './database/lock-name.ts'
import { Ownership } from './database/ownership.ts'
import { prepareDatabase } from './database/prepare-database.ts'
import { PostgresDeliveries } from './deliveries/deliveries.ts'
import { PostgresEventLog, type StorageContext } from './event-log/event-log.ts'
import { GroupCommit } from './group-commit/group-commit.ts'
import { LogHeads } from './group-commit/log-heads.ts'
import type { PostgresConversationLeases } from './leases/conversation-leases.ts'
import { PostgresSession } from './rows/session.ts'
import { idleMsOf, ownConnections, Sharing } from './sharing.ts'

interface PostgresStorageOptions {
  /** `postgres://user:password@host/database?sslmode=verify-full`. Tables are created in its first schema. */
  readonly url: string
  /** Where `url` leads to a pooler in transaction mode: the way to PostgreSQL itself, for one lock. */
  readonly directUrl?: string | undefined
  /** Other servers use the database too; a server that does not renew its leases for so long is replaced. */
  readonly leaseMs?: number | undefined
  readonly log?: LogFunction
  /** Called with the number of changes that were refused because the database could not be used. */
  readonly onRefused?: (changes: number) => void
  /** Several servers of a control plane share the data: `SharedPostgresStorage` orders their writes. */
  readonly isControlPlane?: boolean
  /** The clock, in microseconds. */
  readonly now?: () => Instant
}

/**
 * Opens the storage of a database, and creates or migrates its tables. One server owns a database, or servers
 * with `leaseMs` share it: rejects with a plain Error when others are running that do otherwise, when the
 * version is newer, or when the settings are unsafe.
 */
export async function openPostgresStorage(options: PostgresStorageOptions): Promise<PostgresStorage> {
  const { url, directUrl = url, leaseMs, log = () => {}, isControlPlane = false } = options
  await using resources = new AsyncDisposableStack()
  const db = new PostgresDatabase(url, log, leaseMs === undefined ? {} : { idleMs: idleMsOf(leaseMs) })
  resources.defer(() => db.close())
  await prepareDatabase(db, log, connectionsOf(options))
  const used = await findUse(db)
  assertUse(used, isControlPlane)
  if (isControlPlane || leaseMs === undefined) {
    const { epoch } = isControlPlane ? used : resources.use(await Ownership.acquire(db, directUrl, log))
    const storage = new PostgresStorage(await openContext(options, { db, epoch }), resources.move())
    await storage.resume()
    return storage
  }
  const sharing = resources.use(await Sharing.open({ db, url, directUrl, leaseMs, log }))
  const context = await openContext(options, { db, epoch: sharing.epoch, sharing })
  const storage = new PostgresStorage(context, resources.move())
  await sharing.start(context, storage)
  await storage.resume()
  return storage
}

/** Most connections of a server: pools, the lock, and what leases and notices of changes have. */
function connectionsOf({ leaseMs, isControlPlane = false }: PostgresStorageOptions): number {
  if (isControlPlane) return 3 * maxConnections
  return maxConnections + 1 + (leaseMs === undefined ? 0 : ownConnections)
}

async function openContext(
  { log = () => {}, onRefused = () => {}, now = () => Date.now() * 1000 }: PostgresStorageOptions,
  { db, epoch, sharing }: { db: PostgresDatabase; epoch: number; sharing?: Sharing },
): Promise<StorageContext> {
  const shared = sharing?.sharedData
  const heads = new LogHeads(db, shared, async (count) => {
    if (count !== writer.kindSourceCount) await writer.load()
  })
  const kindSources = new KindSourceNumbers(shared && randomKindSource)
  const writer = new GroupCommit({ db, heads, kindSources, now, epoch, onRefused, shared })
  await writer.load()
  const context: StorageContext = {
    ...{ db, writer, heads, kindSources, now, log },
    liveTails: new LiveTails(),
    damage: new DamageReport(log),
    importLocks: new ImportLocks(),
    documents: openDocuments(db, epoch),
    deliveries: new PostgresDeliveries(db, writer, sharing?.leases),
    leases: sharing?.leases,
  }
  db.onRecovery(async () => {
    await writer.settle()
    context.deliveries.reload()
    context.liveTails.notifyAll()
  })
  return context
}

/**
 * One change of documents at a time, of all servers; none by a server whose database another has taken over.
 */
function openDocuments(db: PostgresDatabase, epoch: number): DocumentStore {
  const beginSql = `SELECT pg_advisory_xact_lock(${lockName('documents')}); SELECT epoch FROM owner`
  const write = <T>(work: (session: Session) => Promise<T>) =>
    db.transaction<T, [number]>(beginSql, async (session, [owner]) => {
      if (owner?.[0] !== epoch) throw storageUnavailableProblem('Another server has taken over the database')
      return await work(session)
    })
  return new DocumentRows(new PostgresSession(db, { write }))
}

/** Servers that share the data choose numbers without asking each other; a pair may have several. */
function randomKindSource(): number {
  return randomInt(1, 2 ** 30)
}

/** Storage on a PostgreSQL database. */
export class PostgresStorage implements Storage {
  readonly log: PostgresEventLog
  readonly conversations: ConversationRecords
  readonly deliveries: Deliveries
  readonly documents: DocumentStore
  readonly #context: StorageContext
  readonly #purge: Purge
  /** The connections, and what says that this server may use the data. */
  readonly #resources: AsyncDisposableStack

  constructor(context: StorageContext, resources: AsyncDisposableStack) {
    this.#context = context
    this.#resources = resources
    this.#purge = new Purge(context)
    this.log = new PostgresEventLog(context)
    this.conversations = new PostgresConversationRecords(context, this.#purge)
    this.deliveries = context.deliveries
    this.documents = context.documents
  }

  /** Why the database cannot be used at the moment. */
  get problem(): Problem | undefined {
    return this.#context.db.problem
  }

  /** Forgets what memory has of the tables. `withKinds`: reads the numbers of kinds and sources again. */
  async refresh({ withKinds }: { readonly withKinds: boolean }): Promise<void> {
    this.#context.heads.clear()
    if (withKinds) await this.#context.writer.load()
  }

  get leases(): PostgresConversationLeases | undefined {
    return this.#context.leases
  }

  /** Removes what an import has left above the head of a conversation. */
  async removeLeftover(leftover: {
    readonly ordinal: number
    readonly above: number
    readonly epoch: number
  }): Promise<void> {
    await this.#purge.run(leftover)
  }

  /** Continues what servers that are gone left unfinished. */
  async resume(): Promise<void> {
    await this.#purge.resume()
  }

  startImport(conversation: string): Promise<ImportSession> {
    return startImport(this.#context, this.#purge, conversation)
  }

  /** Texts are searchable when an append resolves. */
  async waitUntilIndexed(): Promise<void> {}

  overwriteRemoved(): Promise<void> {
    return this.#purge.settled()
  }

  releaseMemory(): void {
    this.log.releaseMemory()
  }

  get metrics(): readonly Metric[] {
    return [...this.#context.writer.metrics.all, this.#context.damage.reads]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.log.close()
    const purged = this.#purge.close()
    await this.#context.writer.close()
    await purged
    await this.#resources.disposeAsync()
  }
}
