import { execFile, spawn } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort } from '../../conformance/support/free-port.ts'
import { type BenchContext, startAgentServer } from './fixtures.ts'
import { adoptProcess, type Server } from './processes.ts'

/** A server under comparison; it can be stopped and started again on the same data. */
export interface Contender {
  readonly name: 'ours' | 'reference'
  /** Resolves when `/health` answers. */
  start(directory: string): Promise<Server>
}

/** This working tree. */
export function ourServer(bench: BenchContext): Contender {
  return {
    name: 'ours',
    async start(directory) {
      const home = await makeHome(directory)
      const server = await startAgentServer(bench, join(directory, 'data'), {
        ...{ HOME: home, SLIPWAY_WIRE: 'current', SLIPWAY_LOG_LEVEL: 'error' },
      })
      await waitForHealth(server.port)
      return server
    },
  }
}

/** The published reference server, from the environment of `.ci/python`. */
export function referenceServer(python: string): Contender {
  return {
    name: 'reference',
    async start(directory) {
      const home = await makeHome(directory)
      const port = await freePort()
      const args = ['-m', 'openhands.agent_server', '--host', '127.0.0.1', '--port', String(port)]
      const child = spawn(python, args, {
        cwd: directory,
        stdio: ['ignore', 'ignore', 'ignore'],
        env: {
          ...{ PATH: process.env.PATH, HOME: home, LANG: 'C.UTF-8', PYTHONUNBUFFERED: '1' },
          ...{ LITELLM_LOCAL_MODEL_COST_MAP: 'True', OPENHANDS_SUPPRESS_BANNER: '1', LOG_LEVEL: 'ERROR' },
          ...{ OH_ENABLE_VSCODE: 'false', OH_PRELOAD_TOOLS: 'false', NO_PROXY: '127.0.0.1,localhost' },
          ...{ OH_SECRET_KEY: 'a-key-of-the-benchmark', TMUX_TMPDIR: home },
          PYTHONPYCACHEPREFIX: resolve(python, '../../bytecode'),
        },
      })
      const server = adoptProcess(child, port)
      try {
        await waitForHealth(port)
      } catch (error) {
        await server[Symbol.asyncDispose]()
        throw error
      }
      return server
    },
  }
}

/**
 * The interpreter of an environment with the reference server, outside this repository; `.ci/python`
 * installs it where it is missing. A text instead of a path says why there is none.
 */
export async function findReference(): Promise<{ readonly python: string } | { readonly reason: string }> {
  const script = resolve(import.meta.dirname, '../../.ci/python')
  const { stdout, stderr } = await promisify(execFile)(script, { timeout: 900_000 })
  const python = stdout.trim()
  return python === '' ? { reason: stderr.trim().split('\n').at(-1) ?? 'it is not installed' } : { python }
}

/** The installed version of the reference. */
export async function referenceVersion(python: string): Promise<string> {
  const code = 'import importlib.metadata as m; print(m.version("openhands-agent-server"))'
  return (await promisify(execFile)(python, ['-c', code])).stdout.trim()
}

async function makeHome(directory: string): Promise<string> {
  const home = join(directory, 'home')
  await mkdir(home, { recursive: true })
  return home
}

async function waitForHealth(port: number): Promise<void> {
  for (const end = performance.now() + 300_000; ; await sleep(10)) {
    const isHealthy = await fetch(`http://127.0.0.1:${port}/health`).then(
      async (response) => {
        await response.arrayBuffer()
        return response.ok
      },
      () => false,
    )
    if (isHealthy) return
    if (performance.now() > end) throw new Error('the server does not answer')
  }
}
