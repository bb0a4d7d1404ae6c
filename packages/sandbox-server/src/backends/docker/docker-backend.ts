import { randomUUID } from 'node:crypto'
import type { Log } from '@slipway/protocol'
import type { Backend, Isolation, Order, Seen } from '../backend.ts'
import { Launch } from './container-launcher.ts'
import { Objects } from './docker-objects.ts'
import { Engine, workLimitMs } from './engine.ts'
import { factsOf, isolationOf } from './engine-info.ts'
import { type Context, type Failure, lastLines, seenOf, seenOfVolume } from './inspect.ts'
import { orderHash, orderLabel, sandboxLabel } from './labels.ts'
import { Network } from './network.ts'

/** How many containers are looked at at the same time. */
const looks = 8

export interface DockerOptions {
  /** The engine's Unix socket, also as `unix://...`; undefined: the first of the usual ones that is there. */
  readonly socketPath?: string | undefined
  readonly ledgerId: string
  readonly log: Log
  /** The address of this machine at which ports are published; 127.0.0.1 when absent. */
  readonly publishHost?: string | undefined
  /** For orders that name no image. */
  readonly defaultImage: string
}

/**
 * Sandboxes as containers of Docker or Podman. Each has a container, and a volume for its files; both carry the ledger's label,
 * and nothing else is touched. A container whose processes have ended may be replaced by another one: what stays is the volume.
 * Sandboxes of one ledger share a network of their own, which stays when they are gone.
 *
 * Agent servers inside reach the control plane at `host.docker.internal`. One that listens on loopback alone is not there for
 * them: it has to listen on `gatewayAddress()` as well, which only they and this machine can reach, or on all addresses. A
 * firewall of the machine must let the sandboxes' network in.
 */
export class DockerBackend implements Backend {
  readonly name = 'docker'
  readonly #engine: Engine
  readonly #network: Network
  readonly #objects: Objects
  readonly #launch: Launch
  readonly #log: Log
  readonly #publishHost: string
  readonly #inWork = new Set<string>()
  readonly #failures = new Map<string, Failure>()
  readonly #printed = new Map<string, { readonly epoch: string; readonly text: string }>()

  /** Does not talk to the engine yet. Throws an Error when `socketPath` is no Unix socket. */
  constructor({ socketPath, ledgerId, log, publishHost = '127.0.0.1', defaultImage }: DockerOptions) {
    const engine = new Engine(socketPath)
    const network = new Network(engine, `slipway-${ledgerId.slice(0, 8)}`, ledgerId)
    const objects = new Objects(engine, ledgerId)
    this.#engine = engine
    this.#network = network
    this.#objects = objects
    this.#launch = new Launch({ engine, objects, network, ledgerId, log, publishHost, defaultImage })
    this.#log = log
    this.#publishHost = publishHost
  }

  /** Whether a server of this machine is heard there is up to its listeners: see the class. */
  hostUrl(port: number, network: Order['network']): string | undefined {
    if (network === 'none') return undefined
    return `http://host.docker.internal:${port}`
  }

  /**
   * An address of this machine for a listener that the sandboxes reach and other machines do not. Undefined where the engine runs
   * in a virtual machine or without root, and with Podman until a sandbox runs: it has its bridge only while there is one.
   */
  gatewayAddress(): Promise<string | undefined> {
    return this.#network.gatewayAddress()
  }

  async isolation(): Promise<Isolation> {
    const [facts, isClosed] = await Promise.all([factsOf(this.#engine), this.#network.isClosed()])
    return isolationOf(facts, isClosed)
  }

  async start(order: Order): Promise<void> {
    this.#inWork.add(order.id)
    this.#failures.delete(order.id)
    try {
      const reason = await this.#ensureRunning(order)
      if (reason !== undefined) this.#failures.set(order.id, { reason, epoch: `failed-${randomUUID()}` })
    } finally {
      this.#inWork.delete(order.id)
    }
  }

  resume(order: Order): Promise<void> {
    return this.start(order)
  }

  async list(id?: string): Promise<readonly Seen[]> {
    const [containers, volumes] = await Promise.all([this.#objects.containers(id), this.#objects.volumes(id)])
    const seen = new Map<string, Seen>()
    const left = containers.map(({ Id }) => Id)
    const look = async () => {
      for (let next = left.pop(); next !== undefined; next = left.pop()) {
        const one = await this.#look(next)
        if (one !== undefined) seen.set(one.id, one)
      }
    }
    await Promise.all(Array.from({ length: looks }, look))
    // A sandbox without a container has its volume, or nothing yet but a start that goes on or has failed.
    const others = [...volumes.map(({ Labels }) => Labels[sandboxLabel] ?? ''), ...this.#known(id)]
    for (const other of others) {
      if (!seen.has(other)) seen.set(other, seenOfVolume(this.#contextOf(other)))
    }
    return [...seen.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  async pause(id: string): Promise<void> {
    for (const { Id } of await this.#objects.containers(id)) {
      if (!(await this.#isMoving(Id))) continue
      const paused = await this.#engine.call({
        method: 'POST',
        path: `/containers/${Id}/pause`,
        limitMs: workLimitMs,
      })
      if (paused.ok || !(await this.#isMoving(Id))) continue
      this.#log('warn', 'The container engine cannot pause; the sandbox is stopped instead', {
        sandbox_id: id,
        reason: paused.reason,
      })
      await this.#engine.must({
        method: 'POST',
        path: `/containers/${Id}/stop`,
        query: { t: 5 },
        limitMs: workLimitMs,
      })
    }
  }

  async remove(id: string): Promise<void> {
    await this.#objects.removeContainers(id)
    await this.#objects.removeVolumes(id)
    this.#failures.delete(id)
    this.#printed.delete(id)
  }

  /** Answers why it cannot run, or undefined when it does. Rejects with what may pass. */
  async #ensureRunning(order: Order): Promise<string | undefined> {
    for (const { Id } of await this.#objects.containers(order.id)) {
      const container = await this.#objects.inspect(Id)
      if (container === undefined) continue
      if (container.State.Paused) {
        await this.#engine.must({ method: 'POST', path: `/containers/${Id}/unpause`, limitMs: workLimitMs })
        return undefined
      }
      if (container.State.Running) return undefined
      const hasEnded = container.State.Status === 'exited'
      if (hasEnded && container.Config.Labels[orderLabel] === orderHash(order)) {
        const path = `/containers/${Id}/start`
        if ((await this.#engine.call({ method: 'POST', path, limitMs: workLimitMs })).ok) return undefined
      }
      await this.#objects.removeContainer(Id)
    }
    return await this.#launch.run(order)
  }

  async #isMoving(containerId: string): Promise<boolean> {
    const container = await this.#objects.inspect(containerId)
    return container?.State.Running === true && !container.State.Paused
  }

  async #look(containerId: string): Promise<Seen | undefined> {
    const container = await this.#objects.inspect(containerId)
    const id = container?.Config.Labels[sandboxLabel]
    if (container === undefined || id === undefined) return undefined
    const seen = seenOf(container, this.#contextOf(id))
    if (seen.state !== 'stopped') return seen
    const text = await this.#printedBy(containerId, seen)
    return text === '' ? seen : { ...seen, detail: `${seen.detail} It printed last:\n${text}` }
  }

  /** The end of what it printed; asked for once, because what has ended prints no more. */
  async #printedBy(containerId: string, { id, epoch }: Seen): Promise<string> {
    const known = this.#printed.get(id)
    if (known?.epoch === epoch) return known.text
    const answer = await this.#engine.call<unknown>({
      method: 'GET',
      path: `/containers/${containerId}/logs`,
      query: { stdout: true, stderr: true, tail: 20 },
    })
    const text = answer.ok && Buffer.isBuffer(answer.value) ? lastLines(answer.value) : ''
    this.#printed.set(id, { epoch, text })
    return text
  }

  #known(id: string | undefined): readonly string[] {
    const known = [...this.#inWork, ...this.#failures.keys()]
    return id === undefined ? known : known.filter((one) => one === id)
  }

  #contextOf(id: string): Context {
    return {
      id,
      publishHost: this.#publishHost,
      isInWork: this.#inWork.has(id),
      failure: this.#failures.get(id),
    }
  }
}
