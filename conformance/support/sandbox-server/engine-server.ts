import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestEngine } from './container-engine.ts'
import { markAllForDeletion, readControlPlaneId } from './process-resources.ts'
import type { SandboxServer } from './server.ts'
import { openSandboxServer, type SandboxServerFixture } from './user.ts'

/** A container as its engine reports it. */
export interface EngineContainer {
  readonly Id: string
  readonly Labels: Readonly<Record<string, string>>
  /** `running`, `paused`, `exited`, ... */
  readonly State: string
}

/**
 * A sandbox server whose sandboxes are containers, with a view of them from outside, independent of the
 * server. Disposal deletes all sandboxes and rejects when a container or a volume is left; in any case
 * nothing stays in the engine.
 */
export class EngineSandboxServer implements AsyncDisposable {
  readonly server: SandboxServer
  readonly #fixture: SandboxServerFixture
  readonly #engine: TestEngine
  readonly #controlPlaneId: string

  private constructor(fixture: SandboxServerFixture, engine: TestEngine, controlPlane: string) {
    this.server = fixture.server
    this.#fixture = fixture
    this.#engine = engine
    this.#controlPlaneId = controlPlane
  }

  static async open(
    engine: TestEngine,
    env: Readonly<Record<string, string>> = {},
  ): Promise<EngineSandboxServer> {
    const fixture = await openSandboxServer({
      env: {
        SLIPWAY_BACKEND: 'docker',
        SLIPWAY_DOCKER_SOCKET: engine.socketPath,
        SLIPWAY_SANDBOX_IMAGE: engine.image,
        ...env,
      },
    })
    const controlPlane = readControlPlaneId(fixture.server.data)
    if (controlPlane !== undefined) return new EngineSandboxServer(fixture, engine, controlPlane)
    await fixture[Symbol.asyncDispose]()
    throw new Error('the server has no control-plane store')
  }

  /** Of one sandbox or of all, also stopped ones. */
  async containers(id?: string): Promise<readonly EngineContainer[]> {
    return await this.#requestOrThrow('GET', `/containers/json?all=true&filters=${this.#filters(id)}`)
  }

  /** The one container of a sandbox. */
  async container(id: string): Promise<EngineContainer> {
    const [found, ...more] = await this.containers(id)
    if (found === undefined || more.length > 0) throw new Error(`${id} does not have one container`)
    return found
  }

  /** Kills the container of a sandbox from outside. Resolves when the engine reports its end. */
  async kill(id: string): Promise<void> {
    const { Id } = await this.container(id)
    await this.#requestOrThrow('POST', `/containers/${Id}/kill?signal=KILL`)
    for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(20)) {
      if ((await this.container(id)).State === 'exited') return
    }
    throw new Error(`the container of ${id} does not end`)
  }

  /** Removes the networks, as an operator might who cleans up an engine. */
  async removeNetworks(): Promise<number> {
    const found = await this.#requestOrThrow<readonly { readonly Id: string }[]>(
      'GET',
      `/networks?filters=${this.#filters()}`,
    )
    for (const { Id } of found) await this.#requestOrThrow('DELETE', `/networks/${Id}`)
    return found.length
  }

  /** Existing containers and volumes, as text. */
  async resources(id?: string): Promise<readonly string[]> {
    const [containers, volumes] = await Promise.all([this.containers(id), this.#volumes(id)])
    return [
      ...containers.map(({ Id, State }) => `container ${Id} ${State}`),
      ...volumes.map((name) => `volume ${name}`),
    ]
  }

  async waitUntilGone(id?: string): Promise<void> {
    let left: readonly string[] = []
    for (const deadline = Date.now() + 90_000; Date.now() < deadline; await sleep(100)) {
      left = await this.resources(id)
      if (left.length === 0) return
    }
    throw new Error(`still there:\n${left.join('\n')}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { server } = this
    try {
      await server.stop('SIGKILL')
      markAllForDeletion(server.data)
      await server.start({ env: { SLIPWAY_WARM_POOL: '0', SLIPWAY_RECONCILE_SECONDS: '1' } })
      await this.waitUntilGone()
      await this.#fixture[Symbol.asyncDispose]()
    } finally {
      await server.stop('SIGKILL')
      await this.#removeAll()
    }
  }

  async #volumes(id?: string): Promise<readonly string[]> {
    const path = `/volumes?filters=${this.#filters(id)}`
    const { Volumes } = await this.#requestOrThrow<{
      readonly Volumes: readonly { readonly Name: string }[] | null
    }>('GET', path)
    return (Volumes ?? []).map(({ Name }) => Name)
  }

  async #removeAll(): Promise<void> {
    for (const { Id } of await this.containers())
      await this.#request('DELETE', `/containers/${Id}?force=true&v=true`)
    for (const name of await this.#volumes()) await this.#request('DELETE', `/volumes/${name}?force=true`)
    await this.removeNetworks()
  }

  async #requestOrThrow<T>(method: string, path: string): Promise<T> {
    const { status, text } = await this.#request(method, path)
    if (status >= 300) throw new Error(`${method} ${path} answered ${status}: ${text}`)
    return (text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text) as T
  }

  async #request(method: string, path: string): Promise<{ readonly status: number; readonly text: string }> {
    const { socketPath } = this.#engine
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
    const outgoing = request({ socketPath, path: `/v1.40${path}`, method, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece: string) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
    outgoing.on('error', reject)
    outgoing.end()
    return await promise
  }

  #filters(id?: string): string {
    const label = [
      `dev.slipway.ledger=${this.#controlPlaneId}`,
      ...(id === undefined ? [] : [`dev.slipway.sandbox=${id}`]),
    ]
    return encodeURIComponent(JSON.stringify({ label }))
  }
}
