import { DatabaseSync, StatementSync } from 'node:sqlite'
import { type Fault, type FaultSource, noFaults } from '../../testing/faults/fault-plan.ts'
import { SyncPace } from '../database/wal/sync-pace.ts'

/** How SQLite names the failures of a write and of a full disk. */
const ioError = { message: 'disk I/O error', errcode: 778 }
const fullError = { message: 'database or disk is full', errcode: 13 }

type Method = (this: DatabaseSync | StatementSync, ...values: never[]) => unknown

interface FileFaults extends FaultSource {
  /** Called at a `cut`, with the files as a kill would leave them. */
  onCut: () => void
}

/** The databases of this process that ask a plan, by path. */
const files = new Map<string, FileFaults>()
const databases = new WeakMap<StatementSync, DatabaseSync>()
let isInstalled = false
let isDiskFast = false
let dropSync: (database: DatabaseSync) => void = () => {}

/**
 * From now on the statements of a database of this thread ask a plan. Call it before the database is opened.
 *
 * @param isFast commits are synced as on a fast disk: the number of points must not depend on the disk.
 */
export function injectFaults(path: string, isFast = false): FileFaults & Disposable {
  install()
  isDiskFast = isFast
  const faults: FileFaults = { plan: noFaults, onCut: () => {} }
  files.set(path, faults)
  return Object.assign(faults, { [Symbol.dispose]: () => void files.delete(path) })
}

function install(): void {
  if (isInstalled) return
  isInstalled = true
  const { get } = Object.getOwnPropertyDescriptor(SyncPace.prototype, 'isFast') ?? {}
  Object.defineProperty(SyncPace.prototype, 'isFast', {
    configurable: true,
    get(this: SyncPace) {
      return files.size === 0 ? get?.call(this) : isDiskFast
    },
  })
  const { exec, prepare } = DatabaseSync.prototype
  dropSync = (database) => exec.call(database, 'PRAGMA synchronous = OFF')
  DatabaseSync.prototype.prepare = function (sql, ...rest) {
    const statement = prepare.call(this, sql, ...rest)
    databases.set(statement, this)
    return statement
  }
  wrap(DatabaseSync.prototype, 'exec', (database, [sql]) => [database as DatabaseSync, String(sql)])
  for (const name of ['run', 'get', 'all', 'iterate'] as const)
    wrap(StatementSync.prototype, name, (statement) => [
      databases.get(statement as StatementSync),
      (statement as StatementSync).sourceSQL,
    ])
}

function wrap(
  prototype: object,
  name: string,
  identify: (target: unknown, values: readonly unknown[]) => readonly [DatabaseSync | undefined, string],
): void {
  const original = Reflect.get(prototype, name) as Method
  Reflect.set(prototype, name, function (this: DatabaseSync | StatementSync, ...values: never[]): unknown {
    const call = () => original.apply(this, values)
    if (files.size === 0) return call()
    const [database, sql] = identify(this, values)
    const faults = database?.isOpen ? files.get(database.location() ?? '') : undefined
    // A kill loses nothing that was written. It is a setting of the connection, and no point.
    if (faults && database && /^PRAGMA synchronous = (FULL|NORMAL)$/.test(sql)) return dropSync(database)
    const fault = faults?.plan.next(sql)
    if (faults === undefined || database === undefined || fault === undefined) return call()
    // SQLite ends the transaction also when its file cannot be read or written.
    const isDone = fault === 'lose' || fault === 'cut' || sql.startsWith('ROLLBACK')
    return inject(fault, { call, isDone, database, onCut: faults.onCut })
  })
}

function inject(
  fault: Fault,
  point: { call(): unknown; readonly isDone: boolean; readonly database: DatabaseSync; onCut(): void },
): unknown {
  const { call, isDone, database, onCut } = point
  if (fault === 'cut') onCut()
  const result = isDone ? call() : undefined
  if (fault === 'cut') return result
  if (fault === 'full' && database.isTransaction) database.exec('ROLLBACK')
  const { message, errcode } = fault === 'full' ? fullError : ioError
  throw Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode })
}
