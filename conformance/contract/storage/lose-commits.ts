import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type { OwnAgentServer } from '../../support/agent-fixture.ts'

/** Settings of a server whose commits `loseCommit` can lose: it loads this file before its own. */
export const losingServerEnv = {
  NODE_OPTIONS: `--import=${pathToFileURL(import.meta.filename).href}`,
  LOSE_COMMITS: '1',
}
/** How SQLite reports a failed sync. */
const failedSync = { code: 'ERR_SQLITE_ERROR', errcode: 1034 }
const mark = 'lost commits'

if (process.env.LOSE_COMMITS === '1') {
  const { exec } = DatabaseSync.prototype
  let isArmed = false
  let lost = 0
  DatabaseSync.prototype.exec = function (sql) {
    exec.call(this, sql)
    if (!isArmed || sql !== 'COMMIT' || !this.location()?.endsWith('log.db')) return
    isArmed = false
    process.stderr.write(`${mark} ${++lost}\n`)
    throw Object.assign(new Error('disk I/O error'), failedSync)
  }
  process.on('SIGUSR2', () => {
    isArmed = true
  })
}

/** The next commit of the log is stored, and reported as failed. Resolves when that has happened. */
export async function loseCommit(server: OwnAgentServer): Promise<void> {
  const count = () => server.output().split(mark).length
  const before = count()
  process.kill(server.pid, 'SIGUSR2')
  for (let waitedMs = 0; count() === before; waitedMs += 5) {
    if (waitedMs > 30_000) throw new Error('the server commits nothing')
    await sleep(5)
  }
}
