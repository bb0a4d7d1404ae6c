import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Endpoint } from './agent-server-api.ts'

export const agentServerMain = resolve(import.meta.dirname, '../../packages/agent-server/src/main.ts')

/**
 * A server to test against: the one that `SLIPWAY_URL` names, or one of the working tree with a data
 * directory of its own.
 */
export interface TestServer extends Endpoint, AsyncDisposable {}

export async function openAgentServer(): Promise<TestServer> {
  const { SLIPWAY_URL, SLIPWAY_SESSION_API_KEY } = process.env
  if (SLIPWAY_URL !== undefined) {
    const headers =
      SLIPWAY_SESSION_API_KEY === undefined ? {} : { 'x-session-api-key': SLIPWAY_SESSION_API_KEY }
    return { url: SLIPWAY_URL.replace(/\/$/, ''), headers, [Symbol.asyncDispose]: async () => {} }
  }
  const data = await mkdtemp(join(tmpdir(), 'slipway-test-'))
  const server = await startAgentServer(data)
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
) {
  const args = [agentServerMain, '--port', '0', '--data', data, ...extraArgs]
  return await startProcess(args, { SLIPWAY_NO_KEY: '1', ...env })
}

/** Starts any program of this Node whose first line is its address. */
export async function startProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  /** A program that starts Node: `setpriv` and its arguments. */
  wrapper: readonly string[] = [],
) {
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
    /** Its output so far. */
    output: () => output,
    async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
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
