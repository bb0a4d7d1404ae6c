import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { must } from '@slipway/protocol'
import Docker from 'dockerode'
import { type BenchContext, startAgentServer } from './fixtures.ts'

/**
 * The floors of the sandbox benchmarks: an agent server without a control plane, as a process or in a
 * container.
 */

/** A process or container that can be paused and resumed. */
export interface Pausable {
  /** Resolves when it is paused. */
  pause(): Promise<void>
  resume(): Promise<void>
}

/** An agent server that answers. */
export interface BareAgentServer extends Pausable, AsyncDisposable {
  readonly url: string
}

export type StartBareServer = (env: Readonly<Record<string, string>>) => Promise<BareAgentServer>

const pollMs = 10

/** Environment of a server that has its settings. */
export const sessionKeyEnv = () => ({ SLIPWAY_SESSION_API_KEY: `sk-${randomUUID()}` })

/** Starts processes that share one compile cache. */
export async function startBareProcesses(bench: BenchContext): Promise<StartBareServer> {
  const cache = { NODE_COMPILE_CACHE: await bench.directory() }
  return async (env) => {
    const server = await startAgentServer(bench, await bench.directory(), { ...cache, ...env })
    const url = `http://127.0.0.1:${server.port}`
    await waitUntilReachable(url)
    return {
      url,
      pause: async () => void process.kill(server.pid, 'SIGSTOP'),
      resume: async () => void process.kill(server.pid, 'SIGCONT'),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    }
  }
}

/** Starts containers of one image, with one port. */
export function startBareContainers(socketPath: string, image: string): StartBareServer {
  const docker = new Docker({ host: '', protocol: 'http', socketPath })
  return async (env) => {
    const container = await docker.createContainer({
      Image: image,
      Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      ExposedPorts: { '8000/tcp': {} },
      HostConfig: { PortBindings: { '8000/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] } },
    })
    const remove = () => container.remove({ force: true, v: true })
    try {
      await container.start()
      const { NetworkSettings } = await container.inspect()
      const [published] = must(NetworkSettings.Ports['8000/tcp'], 'a published port')
      const url = `http://127.0.0.1:${must(published, 'a published port').HostPort}`
      await waitUntilReachable(url)
      return {
        url,
        pause: () => container.pause(),
        resume: () => container.unpause(),
        [Symbol.asyncDispose]: remove,
      }
    } catch (error) {
      await remove()
      throw error
    }
  }
}

/** Resolves when `/ready` answers, also with 503. */
export async function waitUntilReachable(url: string): Promise<void> {
  for (const deadline = performance.now() + 60_000; ; await sleep(pollMs)) {
    const status = await fetch(`${url}/ready`).then(
      async (response) => {
        await response.arrayBuffer()
        return response.status
      },
      () => 0,
    )
    if (status === 200 || status === 503) return
    if (performance.now() > deadline) throw new Error(`${url} does not answer`)
  }
}

/** The freezer of these control groups; undefined when none of them has one. */
export function findFreezer(groups: readonly string[]): Pausable | undefined {
  for (const group of groups) {
    const [v1, v2] = [join(group, 'freezer.state'), join(group, 'cgroup.freeze')]
    const isFrozen = existsSync(v2)
      ? () => /^frozen 1$/m.test(readFileSync(join(group, 'cgroup.events'), 'utf8'))
      : () => readFileSync(v1, 'utf8').trim() === 'FROZEN'
    const [path, frozen, thawed] = existsSync(v2) ? [v2, '1', '0'] : [v1, 'FROZEN', 'THAWED']
    if (!existsSync(path)) continue
    return {
      async pause() {
        writeFileSync(path, frozen)
        while (!isFrozen()) await sleep(1)
      },
      resume: async () => writeFileSync(path, thawed),
    }
  }
  return undefined
}
