import { type ChildProcess, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { agentServerMain } from '@slipway/shared/process/testing'
import pg from 'pg'
import type { Endpoint } from './agent-server-api.ts'
import { openServerInProcess } from './server-in-process.ts'

/**
 * A server to test against: the one that `SLIPWAY_URL` names, or one of the working tree with a data
 * directory of its own.
 */
export interface TestServer extends Endpoint, AsyncDisposable {}

/** A server of the working tree that a test has opened. */
export interface StartedServer {
  readonly url: string
  readonly pid: number | undefined
  /** Its output so far. */
  output(): string
  /** Resolves with the exit code; null after a kill. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export async function openAgentServer(): Promise<TestServer> {
  const { SLIPWAY_URL, SLIPWAY_SESSION_API_KEY } = process.env
  if (SLIPWAY_URL !== undefined) {
    const headers =
      SLIPWAY_SESSION_API_KEY === undefined ? {} : { 'x-session-api-key': SLIPWAY_SESSION_API_KEY }
    return { url: SLIPWAY_URL.replace(/\/$/, ''), headers, [Symbol.asyncDispose]: async () => {} }
  }
  const data = await mkdtemp(join(tmpdir(), 'slipway-test-'))
  const server = await openServerInProcess(data)
  return {
    url: server.url,
    headers: {},
    async [Symbol.asyncDispose]() {
      await server.stop()
      await rm(data, { recursive: true })
    },
  }
}

/**
 * Starts a server process of the working tree on the caller's data directory, for tests that stop and start
 * it. It needs no key unless `env` has one, or `SLIPWAY_NO_KEY` empty.
 */
export async function startAgentServer(
  data: string,
  env: Readonly<Record<string, string>> = {},
  /** Additional arguments; the last of a name counts. */
  extraArgs: readonly string[] = [],
): Promise<StartedServer> {
  const args = [agentServerMain, '--port', '0', '--data', data, ...extraArgs]
  const database = await databaseSettings(data)
  return await startProcess(args, { SLIPWAY_NO_KEY: '1', ...database, ...env })
}

/**
 * With `SLIPWAY_TEST_STORAGE=postgres` each data directory has a schema of the server that `.ci/postgres`
 * started, instead of the files of its log.
 */
export async function databaseSettings(data: string): Promise<Readonly<Record<string, string>>> {
  const { SLIPWAY_TEST_STORAGE, SLIPWAY_TEST_DATABASE_URL } = process.env
  if (SLIPWAY_TEST_STORAGE !== 'postgres') return {}
  if (SLIPWAY_TEST_DATABASE_URL === undefined) throw new Error('SLIPWAY_TEST_DATABASE_URL is not set')
  const schema = `data_${hash('sha256', resolve(data)).slice(0, 16)}`
  const client = new pg.Client({ connectionString: SLIPWAY_TEST_DATABASE_URL })
  await client.connect()
  await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`)
  await client.end()
  const url = new URL(SLIPWAY_TEST_DATABASE_URL)
  url.searchParams.set('options', `-c search_path=${schema}`)
  return { SLIPWAY_DATABASE_URL: url.href }
}

/** Starts any program of this Node whose first line is its address. */
export async function startProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  /** A program that starts Node: `setpriv` and its arguments. */
  wrapper: readonly string[] = [],
): Promise<StartedServer> {
  const [program = process.execPath, ...rest] = [...wrapper, process.execPath]
  const child = spawn(program, [...rest, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, SLIPWAY_LOG_LEVEL: 'error', ...env },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      output += chunk
    })
  }
  const url = await readFirstLine(child)
  return {
    url,
    pid: child.pid,
    output: () => output,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
      const exit = once(child, 'exit')
      child.kill(signal)
      await exit
      return child.exitCode
    },
  }
}

function readFirstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = ''
    let errors = ''
    child.stderr?.on('data', (chunk) => {
      errors += chunk
    })
    child.stdout?.on('data', (chunk) => {
      output += chunk
      const end = output.indexOf('\n')
      if (end !== -1) resolve(output.slice(0, end))
    })
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${errors}`)))
  })
}
