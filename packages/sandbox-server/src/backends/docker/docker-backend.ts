import { randomUUID } from 'node:crypto'
import type { LogFunction } from '@slipway/protocol'
import type { Backend, Isolation, ObservedSandbox, SandboxConfig } from '../backend.ts'
import { ContainerLauncher } from './container-launcher.ts'
import { DockerObjects } from './docker-objects.ts'
import { Engine, longTimeoutMs } from './engine.ts'
import { describeIsolation, fetchEngineInfo } from './engine-info.ts'
import {
  decodeLastLines,
  type InspectContext,
  observedFromVolume,
  type StartFailure,
  toObservedSandbox,
} from './inspect.ts'
import { configHash, configHashLabel, sandboxLabel } from './labels.ts'
import { SandboxNetwork } from './network.ts'

/** How many containers are looked at at the same time. */
const maxConcurrentInspects = 8

export interface DockerBackendOptions {
  /** The engine's Unix socket, also as `unix://...`; undefined: the first of the usual ones that is there. */
  readonly socketPath?: string | undefined
  readonly ledgerId: string
  readonly log: LogFunction
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
  readonly #network: SandboxNetwork
  readonly #objects: DockerObjects
  readonly #launch: ContainerLauncher
  readonly #log: LogFunction
  readonly #publishHost: string
  readonly #starting = new Set<string>()
  readonly #failures = new Map<string, StartFailure>()
  readonly #lastOutputs = new Map<string, { readonly epoch: string; readonly text: string }>()

  /** Does not talk to the engine yet. Throws an Error when `socketPath` is no Unix socket. */
  constructor({ socketPath, ledgerId, log, publishHost = '127.0.0.1', defaultImage }: DockerBackendOptions) {
    const engine = new Engine(socketPath)
    const network = new SandboxNetwork(engine, `slipway-${ledgerId.slice(0, 8)}`, ledgerId)
    const objects = new DockerObjects(engine, ledgerId)
    this.#engine = engine
    this.#network = network
    this.#objects = objects
    this.#launch = new ContainerLauncher({
      engine,
      objects,
      network,
      ledgerId,
      log,
      publishHost,
      defaultImage,
    })
    this.#log = log
    this.#publishHost = publishHost
  }

  /** Whether a server of this machine is heard there is up to its listeners: see the class. */
  hostUrl(port: number, network: SandboxConfig['network']): string | undefined {
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
    const [facts, isClosed] = await Promise.all([fetchEngineInfo(this.#engine), this.#network.isIsolated()])
    return describeIsolation(facts, isClosed)
  }

  async start(config: SandboxConfig): Promise<void> {
    this.#starting.add(config.id)
    this.#failures.delete(config.id)
    try {
      const reason = await this.#ensureRunning(config)
      if (reason !== undefined) this.#failures.set(config.id, { reason, epoch: `failed-${randomUUID()}` })
    } finally {
      this.#starting.delete(config.id)
    }
  }

  resume(config: SandboxConfig): Promise<void> {
    return this.start(config)
  }

  async list(id?: string): Promise<readonly ObservedSandbox[]> {
    const [containers, volumes] = await Promise.all([
      this.#objects.listContainers(id),
      this.#objects.listVolumes(id),
    ])
    const observed = new Map<string, ObservedSandbox>()
    const remaining = containers.map(({ Id }) => Id)
    const inspectNext = async () => {
      for (let next = remaining.pop(); next !== undefined; next = remaining.pop()) {
        const one = await this.#inspect(next)
        if (one !== undefined) observed.set(one.id, one)
      }
    }
    await Promise.all(Array.from({ length: maxConcurrentInspects }, inspectNext))
    // A sandbox without a container has its volume, or nothing yet but a start that goes on or has failed.
    const others = [...volumes.map(({ Labels }) => Labels[sandboxLabel] ?? ''), ...this.#knownIds(id)]
    for (const other of others) {
      if (!observed.has(other)) observed.set(other, observedFromVolume(this.#inspectContext(other)))
    }
    return [...observed.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  async pause(id: string): Promise<void> {
    for (const { Id } of await this.#objects.listContainers(id)) {
      if (!(await this.#isContainerRunning(Id))) continue
      const paused = await this.#engine.call({
        method: 'POST',
        path: `/containers/${Id}/pause`,
        timeoutMs: longTimeoutMs,
      })
      if (paused.ok || !(await this.#isContainerRunning(Id))) continue
      this.#log('warn', 'The container engine cannot pause; the sandbox is stopped instead', {
        sandbox_id: id,
        reason: paused.reason,
      })
      await this.#engine.callOrThrow({
        method: 'POST',
        path: `/containers/${Id}/stop`,
        query: { t: 5 },
        timeoutMs: longTimeoutMs,
      })
    }
  }

  async remove(id: string): Promise<void> {
    await this.#objects.removeContainers(id)
    await this.#objects.removeVolumes(id)
    this.#failures.delete(id)
    this.#lastOutputs.delete(id)
  }

  /** Answers why it cannot run, or undefined when it does. Rejects with what may pass. */
  async #ensureRunning(config: SandboxConfig): Promise<string | undefined> {
    for (const { Id } of await this.#objects.listContainers(config.id)) {
      const container = await this.#objects.inspect(Id)
      if (container === undefined) continue
      if (container.State.Paused) {
        await this.#engine.callOrThrow({
          method: 'POST',
          path: `/containers/${Id}/unpause`,
          timeoutMs: longTimeoutMs,
        })
        return undefined
      }
      if (container.State.Running) return undefined
      const hasEnded = container.State.Status === 'exited'
      if (hasEnded && container.Config.Labels[configHashLabel] === configHash(config)) {
        const path = `/containers/${Id}/start`
        if ((await this.#engine.call({ method: 'POST', path, timeoutMs: longTimeoutMs })).ok) return undefined
      }
      await this.#objects.removeContainer(Id)
    }
    return await this.#launch.launch(config)
  }

  async #isContainerRunning(containerId: string): Promise<boolean> {
    const container = await this.#objects.inspect(containerId)
    return container?.State.Running === true && !container.State.Paused
  }

  async #inspect(containerId: string): Promise<ObservedSandbox | undefined> {
    const container = await this.#objects.inspect(containerId)
    const id = container?.Config.Labels[sandboxLabel]
    if (container === undefined || id === undefined) return undefined
    const observed = toObservedSandbox(container, this.#inspectContext(id))
    if (observed.state !== 'stopped') return observed
    const text = await this.#readLastOutput(containerId, observed)
    return text === '' ? observed : { ...observed, detail: `${observed.detail} It printed last:\n${text}` }
  }

  /** The end of what it printed; asked for once, because what has ended prints no more. */
  async #readLastOutput(containerId: string, { id, epoch }: ObservedSandbox): Promise<string> {
    const cached = this.#lastOutputs.get(id)
    if (cached?.epoch === epoch) return cached.text
    const answer = await this.#engine.call<unknown>({
      method: 'GET',
      path: `/containers/${containerId}/logs`,
      query: { stdout: true, stderr: true, tail: 20 },
    })
    const text = answer.ok && Buffer.isBuffer(answer.value) ? decodeLastLines(answer.value) : ''
    this.#lastOutputs.set(id, { epoch, text })
    return text
  }

  #knownIds(id: string | undefined): readonly string[] {
    const known = [...this.#starting, ...this.#failures.keys()]
    return id === undefined ? known : known.filter((one) => one === id)
  }

  #inspectContext(id: string): InspectContext {
    return {
      id,
      publishHost: this.#publishHost,
      isStarting: this.#starting.has(id),
      failure: this.#failures.get(id),
    }
  }
}
