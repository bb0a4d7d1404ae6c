import type { Instant, LogFunction, Problem } from '@slipway/protocol'
import type { Metric } from '@slipway/shared/metrics'
import type { ConversationRecords } from '../conversations/conversation-records.ts'
import { ImportLocks } from '../conversations/import-locks.ts'
import type { ImportSession } from '../conversations/import-session.ts'
import type { Storage } from '../conversations/storage.ts'
import type { Deliveries } from '../deliveries/deliveries.ts'
import { KindSourceNumbers } from '../event-log/kind-source-numbers.ts'
import { LiveTails } from '../event-log/live-tails.ts'
import { PostgresConversationRecords } from './conversations/conversation-records.ts'
import { startImport } from './conversations/import-session.ts'
import { Purge } from './conversations/purge.ts'
import { PostgresDatabase } from './database/database.ts'
import { Ownership } from './database/ownership.ts'
import { prepareDatabase } from './database/prepare-database.ts'
import { PostgresDeliveries } from './deliveries/deliveries.ts'
import { PostgresEventLog, type StorageContext } from './event-log/event-log.ts'
import { GroupCommit } from './group-commit/group-commit.ts'
import { LogHeads } from './group-commit/log-heads.ts'

interface PostgresStorageOptions {
  /** `postgres://user:password@host/database?sslmode=verify-full`. Tables are created in its first schema. */
  readonly url: string
  /** Where `url` leads to a pooler in transaction mode: the way to PostgreSQL itself, for one lock. */
  readonly directUrl?: string | undefined
  readonly log?: LogFunction
  /** Called with the number of changes that were refused because the database could not be used. */
  readonly onRefused?: (changes: number) => void
  /** Several servers of a control plane share the data: `SharedPostgresStorage` orders their writes. */
  readonly isControlPlane?: boolean
  /** The clock, in microseconds. */
  readonly now?: () => Instant
}

/**
 * Opens the storage of a database, and creates or migrates its tables. One server owns a database: rejects
 * with a plain Error when another is running, when the version is newer, or when the settings are unsafe.
 */
export async function openPostgresStorage(options: PostgresStorageOptions): Promise<PostgresStorage> {
  const { url, directUrl = url, log = () => {}, now = () => Date.now() * 1000 } = options
  const { onRefused = () => {} } = options
  const db = new PostgresDatabase(url, log)
  let ownership: Ownership | undefined
  try {
    await prepareDatabase(db, log)
    const used = await findUse(db)
    assertUse(used, options.isControlPlane === true)
    if (options.isControlPlane !== true) ownership = await Ownership.acquire(db, directUrl, log)
    const heads = new LogHeads(db)
    const kindSources = new KindSourceNumbers()
    const writer = new GroupCommit({
      db,
      heads,
      kindSources,
      now,
      epoch: ownership?.epoch ?? used.epoch,
      onRefused,
    })
    await writer.load()
    const context: StorageContext = {
      ...{ db, writer, heads, kindSources, now, log },
      liveTails: new LiveTails(),
      importLocks: new ImportLocks(),
      deliveries: new PostgresDeliveries(db, writer),
    }
    db.onRecovery(async () => {
      await writer.settle()
      context.deliveries.reload()
      context.liveTails.notifyAll()
    })
    const storage = new PostgresStorage(context, ownership)
    await storage.resume()
    return storage
  } catch (error) {
    await ownership?.[Symbol.asyncDispose]()
    await db.close()
    throw error
  }
}

interface Use {
  readonly epoch: number
  readonly isControlPlane: boolean
}

async function findUse(db: PostgresDatabase): Promise<Use> {
  const sql = 'SELECT epoch, EXISTS (SELECT 1 FROM ledger) FROM owner'
  const [row] = await db.query<[number, boolean]>(sql)
  return { epoch: row?.[0] ?? 0, isControlPlane: row?.[1] ?? false }
}

/** The logs of an agent server and those of a control plane have tables of the same names. */
function assertUse(used: Use, isControlPlane: boolean): void {
  if (used.isControlPlane && !isControlPlane)
    throw new Error('The database belongs to a sandbox server: use another database, or another schema')
  if (isControlPlane && used.epoch > 0)
    throw new Error('The database belongs to an agent server: use another database, or another schema')
}

/** Storage on a PostgreSQL database. */
export class PostgresStorage implements Storage {
  readonly log: PostgresEventLog
  readonly conversations: ConversationRecords
  readonly deliveries: Deliveries
  readonly #context: StorageContext
  readonly #purge: Purge
  readonly #ownership: Ownership | undefined

  constructor(context: StorageContext, ownership: Ownership | undefined) {
    this.#context = context
    this.#ownership = ownership
    this.#purge = new Purge(context)
    this.log = new PostgresEventLog(context)
    this.conversations = new PostgresConversationRecords(context, this.#purge)
    this.deliveries = context.deliveries
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

  /** Continues what the last server left unfinished. */
  async resume(): Promise<void> {
    await this.#purge.resume()
  }

  startImport(conversation: string): Promise<ImportSession> {
    return startImport(this.#context, this.#purge, conversation)
  }

  /** Texts are searchable when an append resolves. */
  async waitUntilIndexed(): Promise<void> {}

  get metrics(): readonly Metric[] {
    return this.#context.writer.metrics.all
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.log.close()
    const purged = this.#purge.close()
    await this.#context.writer.close()
    await purged
    await this.#ownership?.[Symbol.asyncDispose]()
    await this.#context.db.close()
  }
}
