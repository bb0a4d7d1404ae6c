import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '@slipway/shared/process'

const program = '/usr/sbin/pgbouncer'
/** PgBouncer, as Debian installs it. */
export const hasPooler = existsSync(program)
/** Of `nobody`: the program refuses to run as root. */
const userId = 65_534

/** PgBouncer in transaction mode in front of a server; `url` is that of the database through it. */
export async function startPooler(databaseUrl: string) {
  const { hostname, port: databasePort, username, password } = new URL(databaseUrl)
  const directory = mkdtempSync(join(tmpdir(), 'slipway-pooler-'))
  const port = await findFreePort()
  const config = join(directory, 'pgbouncer.ini')
  writeFileSync(
    config,
    `[databases]
* = host=${hostname} port=${databasePort} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
ignore_startup_parameters = extra_float_digits
`,
  )
  const isRoot = process.getuid?.() === 0
  if (isRoot) for (const path of [directory, config]) chownSync(path, userId, userId)
  const identity = isRoot ? { uid: userId, gid: userId } : {}
  const child = spawn(program, [config], { stdio: ['ignore', 'ignore', 'pipe'], ...identity })
  await waitUntilListening(child)
  const url = new URL(databaseUrl)
  url.port = String(port)
  return {
    url: url.href,
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
      rmSync(directory, { recursive: true })
    },
  }
}

/** PgBouncer tells it on standard error. */
async function waitUntilListening(child: ChildProcess): Promise<void> {
  let output = ''
  for await (const chunk of child.stderr ?? []) {
    output += chunk
    if (output.includes('process up')) {
      child.stderr?.resume()
      return
    }
  }
  throw new Error(`PgBouncer does not start: ${output}`)
}
