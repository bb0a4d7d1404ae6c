import { DatabaseSync } from 'node:sqlite'

/** The next commit of a `log.db` is stored, and then fails, as when the sync of its journal fails. */
export function loseNextCommit(): Disposable {
  const { exec } = DatabaseSync.prototype
  let isArmed = true
  DatabaseSync.prototype.exec = function (sql) {
    exec.call(this, sql)
    if (!isArmed || sql !== 'COMMIT' || !this.location()?.endsWith('log.db')) return
    isArmed = false
    throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 1034 })
  }
  return {
    [Symbol.dispose]() {
      DatabaseSync.prototype.exec = exec
    },
  }
}
