import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { runSql } from './test-database.ts'

const script = fileURLToPath(new URL('../../../../../.ci/postgres', import.meta.url))

/** A PostgreSQL server of one test, which may be killed. */
export async function startOwnPostgres() {
  const command = ['bash', '-c', 'echo "$SLIPWAY_TEST_DATABASE_URL"; cat >/dev/null']
  const child = spawn(script, command, { stdio: ['pipe', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const { value: url = '' } = await lines.next()
  return {
    url: String(url),
    /** Kills a process of the server, which then ends all the others and recovers from its log. */
    async crash() {
      const pids = await runSql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'", url)
      process.kill(Number(pids[0]?.pid), 'SIGKILL')
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await closed
    },
  }
}
