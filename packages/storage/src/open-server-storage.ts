import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { LogFunction, Problem } from '@slipway/protocol'
import type { Metric } from '@slipway/shared/metrics'
import type { CompactedFile, CompactOptions } from './conversations/compaction.ts'
import type { Storage } from './conversations/storage.ts'
import type { DocumentStore } from './documents/document-store.ts'
import { DirectoryLock } from './sqlite/database/directory-lock.ts'
import { makeDataDirectory } from './sqlite/database/open-failure.ts'
import { StorageHealth } from './sqlite/database/storage-health.ts'
import type { StorageLimits } from './sqlite/event-log/storage-limits.ts'
import { openStorage } from './sqlite/storage.ts'

/** The storage of a server, and whether it can be used. */
export interface ServerStorage extends Storage {
  /** Settings, profiles, secrets and decisions of the server. */
  readonly documents: DocumentStore
  readonly health: StorageHealth
  readonly metrics: readonly Metric[]
  /** Gives the free space of its files back, while it is used. */
  compact(options: CompactOptions): Promise<readonly CompactedFile[]>
}

/** A PostgreSQL database. */
export interface DatabaseLocation {
  /** `postgres://user:password@host/database?sslmode=verify-full` */
  readonly url: string
  /** Where `url` leads to a pooler in transaction mode: the way to PostgreSQL itself. */
  readonly directUrl?: string | undefined
  /** Other servers use the database too; a server that does not renew its leases for so long is replaced. */
  readonly leaseMs?: number | undefined
}

/**
 * Opens the log, the records and the deliveries of a server: in its data directory, or in a database. The
 * directory is locked in both cases. Rejects with a plain Error when either is in use.
 */
export async function openServerStorage(options: {
  readonly directory: string
  readonly database: DatabaseLocation | undefined
  readonly limits?: StorageLimits | undefined
  readonly log: LogFunction
}): Promise<ServerStorage> {
  const { directory, database, limits, log } = options
  if (database === undefined) return await openStorage({ directory, limits, log })
  if (limits !== undefined && Number.isFinite(Math.min(limits.totalBytes, limits.conversationBytes)))
    throw new Error(
      'SLIPWAY_MAX_STORED_MB and SLIPWAY_MAX_CONVERSATION_MB limit a data directory, not a database: unset them',
    )
  await makeDataDirectory(directory)
  const lock = await DirectoryLock.acquire(directory)
  try {
    if (existsSync(join(directory, 'log.db')))
      log('warn', 'the conversations in log.db are not served while a database is configured', { directory })
    const { openPostgresStorage } = await import('./postgres/storage.ts')
    let opened: { readonly problem: Problem | undefined } | undefined
    const health = new StorageHealth(directory, log, () => opened?.problem)
    const storage = await openPostgresStorage({
      ...database,
      log,
      onRefused: (changes) => health.refused.inc(changes),
    })
    opened = storage
    return {
      health,
      ...{ log: storage.log, conversations: storage.conversations, deliveries: storage.deliveries },
      documents: storage.documents,
      leases: storage.leases,
      startImport: (conversation) => storage.startImport(conversation),
      waitUntilIndexed: () => storage.waitUntilIndexed(),
      overwriteRemoved: () => storage.overwriteRemoved(),
      releaseMemory: () => storage.releaseMemory(),
      compact: async () => [],
      metrics: [...storage.metrics, ...health.metrics],
      async [Symbol.asyncDispose]() {
        await health.close()
        await storage[Symbol.asyncDispose]()
        lock[Symbol.dispose]()
      },
    }
  } catch (error) {
    lock[Symbol.dispose]()
    throw error
  }
}
