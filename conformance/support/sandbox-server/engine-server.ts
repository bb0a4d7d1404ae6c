import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { ledgerOf, wishGone } from './process-resources.ts'
import type { SandboxServer } from './server.ts'
import { openPlace, type Place } from './user.ts'

/** A container engine that tests may fill: its socket, and an image of the agent server in it. */
export interface TestEngine {
  readonly socketPath: string
  readonly image: string
}

/** A container as its engine tells it. */
export interface Container {
  readonly Id: string
  readonly Labels: Readonly<Record<string, string>>
  /** `running`, `paused`, `exited`, ... */
  readonly State: string
}

/** The engine whose socket a variable names; undefined when it is not set. */
export function testEngine(variable: string): TestEngine | undefined {
  const socketPath = process.env[variable]
  if (!socketPath) return undefined
  return { socketPath, image: process.env.SLIPWAY_TEST_IMAGE || 'slipway-agent-server' }
}

/**
 * A sandbox server whose sandboxes are containers, and a look at them from outside, without any help of the server. Disposing of it
 * deletes all sandboxes and rejects when a container or a volume is left; nothing of it stays in the engine in any case.
 */
export class EnginePlace implements AsyncDisposable {
  readonly server: SandboxServer
  readonly #place: Place
  readonly #engine: TestEngine
  readonly #ledger: string

  private constructor(place: Place, engine: TestEngine, ledger: string) {
    this.server = place.server
    this.#place = place
    this.#engine = engine
    this.#ledger = ledger
  }

  static async open(engine: TestEngine, env: Readonly<Record<string, string>> = {}): Promise<EnginePlace> {
    const place = await openPlace({
      env: {
        SLIPWAY_BACKEND: 'docker',
        SLIPWAY_DOCKER_SOCKET: engine.socketPath,
        SLIPWAY_SANDBOX_IMAGE: engine.image,
        ...env,
      },
    })
    const ledger = ledgerOf(place.server.data)
    if (ledger !== undefined) return new EnginePlace(place, engine, ledger)
    await place[Symbol.asyncDispose]()
    throw new Error('the server has no ledger')
  }

  /** Of one sandbox or of all, also those that do not run. */
  async containers(id?: string): Promise<readonly Container[]> {
    return await this.#must('GET', `/containers/json?all=true&filters=${this.#filters(id)}`)
  }

  /** The one container of a sandbox. */
  async container(id: string): Promise<Container> {
    const [found, ...more] = await this.containers(id)
    if (found === undefined || more.length > 0) throw new Error(`${id} does not have one container`)
    return found
  }

  /** Kills the container of a sandbox from outside. Resolves when the engine says that it has ended. */
  async kill(id: string): Promise<void> {
    const { Id } = await this.container(id)
    await this.#must('POST', `/containers/${Id}/kill?signal=KILL`)
    for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(20)) {
      if ((await this.container(id)).State === 'exited') return
    }
    throw new Error(`the container of ${id} does not end`)
  }

  /** Takes the networks away, as a person does who cleans up an engine. */
  async removeNetworks(): Promise<number> {
    const found = await this.#must<readonly { readonly Id: string }[]>(
      'GET',
      `/networks?filters=${this.#filters()}`,
    )
    for (const { Id } of found) await this.#must('DELETE', `/networks/${Id}`)
    return found.length
  }

  /** Containers and volumes that there are, in words. */
  async remains(id?: string): Promise<readonly string[]> {
    const [containers, volumes] = await Promise.all([this.containers(id), this.#volumes(id)])
    return [
      ...containers.map(({ Id, State }) => `container ${Id} ${State}`),
      ...volumes.map((name) => `volume ${name}`),
    ]
  }

  async untilGone(id?: string): Promise<void> {
    let left: readonly string[] = []
    for (const deadline = Date.now() + 90_000; Date.now() < deadline; await sleep(100)) {
      left = await this.remains(id)
      if (left.length === 0) return
    }
    throw new Error(`it is still there:\n${left.join('\n')}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { server } = this
    try {
      await server.stop('SIGKILL')
      wishGone(server.data)
      await server.start({ env: { SLIPWAY_WARM_POOL: '0', SLIPWAY_RECONCILE_SECONDS: '1' } })
      await this.untilGone()
      await this.#place[Symbol.asyncDispose]()
    } finally {
      await server.stop('SIGKILL')
      await this.#clear()
    }
  }

  async #volumes(id?: string): Promise<readonly string[]> {
    const path = `/volumes?filters=${this.#filters(id)}`
    const { Volumes } = await this.#must<{ readonly Volumes: readonly { readonly Name: string }[] | null }>(
      'GET',
      path,
    )
    return (Volumes ?? []).map(({ Name }) => Name)
  }

  async #clear(): Promise<void> {
    for (const { Id } of await this.containers())
      await this.#ask('DELETE', `/containers/${Id}?force=true&v=true`)
    for (const name of await this.#volumes()) await this.#ask('DELETE', `/volumes/${name}?force=true`)
    await this.removeNetworks()
  }

  async #must<T>(method: string, path: string): Promise<T> {
    const { status, text } = await this.#ask(method, path)
    if (status >= 300) throw new Error(`${method} ${path} answered ${status}: ${text}`)
    return (text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text) as T
  }

  async #ask(method: string, path: string): Promise<{ readonly status: number; readonly text: string }> {
    const { socketPath } = this.#engine
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
    const asking = request({ socketPath, path: `/v1.40${path}`, method, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece: string) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
    asking.on('error', reject)
    asking.end()
    return await promise
  }

  #filters(id?: string): string {
    const label = [
      `dev.slipway.ledger=${this.#ledger}`,
      ...(id === undefined ? [] : [`dev.slipway.sandbox=${id}`]),
    ]
    return encodeURIComponent(JSON.stringify({ label }))
  }
}
