import { DatabaseSync } from 'node:sqlite'

const writes = /^COMMIT$|journal_mode|wal_checkpoint|user_version = /

/** The write-ahead logs of all databases take no writes, as when their blocks fail; reads continue. */
export function failWal(): Disposable & { readonly failures: number } {
  const { exec } = DatabaseSync.prototype
  let failures = 0
  DatabaseSync.prototype.exec = function (sql) {
    if (!writes.test(sql)) return exec.call(this, sql)
    failures += 1
    throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 778 })
  }
  return {
    get failures() {
      return failures
    },
    [Symbol.dispose]() {
      DatabaseSync.prototype.exec = exec
    },
  }
}
