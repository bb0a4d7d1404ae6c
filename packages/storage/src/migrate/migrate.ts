import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Instant } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import { Cipher } from '../crypto/cipher.ts'
import type { DocumentStore } from '../documents/document-store.ts'
import { readDocumentFiles } from '../documents/import-files.ts'
import { isSameDocument, reseal } from '../documents/reseal.ts'
import { openControlPlaneStore } from '../sqlite/control-plane/control-plane-store.ts'
import { Database } from '../sqlite/database/database.ts'
import { logMigrations } from '../sqlite/event-log/schema.ts'
import { openStorage } from '../sqlite/storage.ts'
import { type CopyProgress, copyConversations } from './copy-conversations.ts'

interface MigrateOptions {
  /** A data directory, or `postgres://…`. One of both is a directory, the other a database. */
  readonly from: string
  readonly to: string
  /** `SLIPWAY_SECRET_KEY`: what goes into a database is sealed with it, also what `secret.key` has sealed. */
  readonly secretKey?: Secret | undefined
  readonly onProgress?: (progress: CopyProgress) => void
}

export interface MigrateResult extends CopyProgress {
  /** Rows of the control plane; undefined for an agent server. */
  readonly rows: number | undefined
}

type Cursor = readonly [receiver: string, conversation: string, position: number, updated_at: number | null]

const cursorsSql = 'SELECT receiver, conversation, position, updated_at FROM delivery'

/**
 * Copies what a server stores into a database, or back into a directory, and compares every conversation. No
 * server may use either. An interrupted call is repeated with the same arguments and continues; a repeated
 * one changes nothing. Rejects with a plain Error when something differs.
 */
export async function migrate(options: MigrateOptions): Promise<MigrateResult> {
  const { from, to, secretKey, onProgress = () => {} } = options
  if (isUrl(from) === isUrl(to))
    throw new Error('One of --from and --to is a data directory, the other postgres://…')
  const [url, directory] = isUrl(from) ? [from, resolve(to)] : [to, resolve(from)]
  const isControlPlane = isUrl(from)
    ? await isControlPlaneUrl(url)
    : existsSync(join(directory, 'control.db'))
  if (!isUrl(from) && !isControlPlane && !existsSync(join(directory, 'log.db')))
    throw new Error(`${directory} has no log.db`)
  const { openPostgresStorage } = await import('../postgres/storage.ts')
  const clock = { instant: 0 }
  const now = (): Instant => clock.instant
  const setClock = (instant: Instant) => {
    clock.instant = instant
  }
  const setUpdatedAt = (id: string, instant: Instant) =>
    isUrl(from) ? updateFile(directory, id, instant) : updateDatabase(url, id, instant)
  await using files = await openStorage({ directory, now })
  await using database = await openPostgresStorage({ url, now, isControlPlane })
  const [source, target] = isUrl(from) ? [database, files] : [files, database]
  const copied = await copyConversations(source, { storage: target, setClock, setUpdatedAt }, onProgress)
  const cursors = isUrl(from) ? await readDatabaseCursors(url) : readFileCursors(directory)
  for (const [receiver, conversation, position, updated_at] of cursors)
    await target.deliveries.advance(receiver, conversation, { position, updated_at })
  if (!isControlPlane) {
    const isSealedAgain = !isUrl(from) && secretKey !== undefined
    const cipher = isSealedAgain ? await Cipher.open({ directory, secretKey }) : undefined
    const seal = (name: string, bytes: Buffer) =>
      cipher === undefined ? bytes : (reseal(name, bytes, cipher)?.bytes ?? bytes)
    await copyDocuments(source.documents, target.documents, { cipher, seal })
    if (!isUrl(from))
      for await (const { name, bytes } of readDocumentFiles(directory))
        await target.documents.update('', name, (old) => old ?? seal(name, bytes))
    return { ...copied, rows: undefined }
  }
  const { controlPlaneToFiles, controlPlaneToPostgres } = await import('./copy-control-plane.ts')
  if (!isUrl(from)) return { ...copied, rows: await controlPlaneToPostgres({ directory, url }) }
  await (await openControlPlaneStore({ directory }))[Symbol.asyncDispose]()
  return { ...copied, rows: await controlPlaneToFiles({ directory, url }) }
}

/** Throws an Error for one that is another in the target. */
async function copyDocuments(
  from: DocumentStore,
  to: DocumentStore,
  {
    cipher,
    seal,
  }: { readonly cipher: Cipher | undefined; readonly seal: (name: string, bytes: Buffer) => Buffer },
): Promise<void> {
  for (const name of await from.list('')) {
    const bytes = await from.get('', name)
    await to.update('', name, (old) => {
      if (old !== undefined && bytes !== undefined && !isSameDocument(name, [old, bytes], cipher))
        throw new Error(
          `The document ${name} differs in the target: remove it there (slipway documents rm ${name}), or use another target`,
        )
      return old ?? (bytes === undefined ? undefined : seal(name, bytes))
    })
  }
}

function isUrl(place: string): boolean {
  return /^postgres(ql)?:\/\//.test(place)
}

async function isControlPlaneUrl(url: string): Promise<boolean> {
  const rows = await query<[boolean]>(url, 'SELECT EXISTS (SELECT 1 FROM ledger)')
  return rows[0]?.[0] === true
}

function readDatabaseCursors(url: string): Promise<Cursor[]> {
  return query<Cursor>(url, cursorsSql)
}

async function updateDatabase(url: string, id: string, instant: Instant): Promise<void> {
  await query(url, 'UPDATE conversation SET updated_at = $1 WHERE id = $2 AND is_visible', [instant, id])
}

async function updateFile(directory: string, id: string, instant: Instant): Promise<void> {
  const sql = 'UPDATE conversation SET updated_at = ? WHERE id = ? AND is_visible = 1'
  withLog(directory, (db) => db.run(sql, instant, id))
}

function readFileCursors(directory: string): Cursor[] {
  return withLog(directory, (db) => db.all<Cursor>(cursorsSql))
}

function withLog<T>(directory: string, work: (db: Database) => T): T {
  const path = join(directory, 'log.db')
  const db = new Database(path, { synchronous: 'FULL', cacheBytes: 2 ** 20, migrations: logMigrations })
  try {
    return work(db)
  } finally {
    db.close()
  }
}

async function query<Row extends readonly unknown[]>(
  url: string,
  sql: string,
  values: readonly (string | number)[] = [],
): Promise<Row[]> {
  const { PostgresDatabase } = await import('../postgres/database/database.ts')
  const { prepareDatabase } = await import('../postgres/database/prepare-database.ts')
  const db = new PostgresDatabase(url, () => {})
  try {
    await prepareDatabase(db, () => {})
    return await db.query<Row>(sql, values)
  } finally {
    await db.close()
  }
}
