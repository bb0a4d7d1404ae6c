import { randomUUID } from 'node:crypto'
import { Semaphore } from '@slipway/shared/async'
import { exists } from '@slipway/shared/fs'
import { lastChars } from '@slipway/shared/text'
import type { ContainerStats } from 'dockerode'
import {
  type Backend,
  type CopiedFiles,
  FilesError,
  type Isolation,
  type ObservedSandbox,
  type SandboxConfig,
  type SandboxUse,
} from '../backend.ts'
import { measureFolder } from '../process/host/measure-folder.ts'
import { listDescendants, listProcesses } from '../process/host/processes.ts'
import { ContainerLauncher, type ContainerLauncherDeps } from './container-launcher.ts'
import { toSandboxUse } from './container-use.ts'
import { copyVolume, removeCopier } from './copy-files.ts'
import { DockerObjects } from './docker-objects.ts'
import { Engine } from './engine.ts'
import { describeIsolation, fetchEngineInfo } from './engine-info.ts'
import {
  decodeLastLines,
  decodeOutput,
  type InspectContext,
  observedFromVolume,
  type StartFailure,
  toObservedSandbox,
} from './inspect.ts'
import { configHash, configHashLabel, sandboxLabel } from './labels.ts'
import { SandboxNetwork } from './network.ts'

/** Of a log: lines of agent servers are longer. */
const bytesOfLine = 80

interface DockerBackendOptions extends Pick<ContainerLauncherDeps, 'ledgerId' | 'log' | 'defaultImage'> {
  /** The Unix socket of the engine, also as `unix://...`; undefined: the first default one that exists. */
  readonly socketPath?: string | undefined
}

/**
 * Sandboxes as containers of Docker or Podman: a container, which may be replaced, and a volume each, in one
 * network of the ledger. They reach the server at `host.docker.internal` if it listens on `gatewayAddress()`.
 */
export class DockerBackend implements Backend {
  readonly name = 'docker'
  readonly #deps: ContainerLauncherDeps
  readonly #launcher: ContainerLauncher
  readonly #inspections = new Semaphore(8)
  readonly #starting = new Set<string>()
  readonly #failures = new Map<string, StartFailure>()
  /** Sandboxes that are frozen for a copy of their files, or to be measured, and how often each was. */
  readonly #frozen = new Set<string>()
  readonly #freezes = new Map<string, number>()
  /** Asked once: it takes tens of milliseconds. */
  #diskDirectory: Promise<string | undefined> | undefined
  readonly #lastOutputs = new Map<string, { readonly epoch: string; readonly text: string }>()

  /** Throws an Error when `socketPath` is no Unix socket. Does not connect yet. */
  constructor({ socketPath, ...options }: DockerBackendOptions) {
    const { ledgerId } = options
    const engine = new Engine(socketPath)
    const network = new SandboxNetwork(engine, `slipway-${ledgerId.slice(0, 8)}`, ledgerId)
    this.#deps = { ...options, engine, network, objects: new DockerObjects(engine, ledgerId) }
    this.#launcher = new ContainerLauncher(this.#deps)
  }

  hostUrl(port: number, network: SandboxConfig['network']): string | undefined {
    if (network === 'none') return undefined
    return `http://host.docker.internal:${port}`
  }

  /** Undefined for an engine in a virtual machine or without root, and for Podman while no sandbox runs. */
  gatewayAddress(): Promise<string | undefined> {
    return this.#deps.network.gatewayAddress()
  }

  async isolation(): Promise<Isolation> {
    const { engine, network } = this.#deps
    const [facts, isClosed] = await Promise.all([fetchEngineInfo(engine), network.isIsolated()])
    const isDiskMeasured = (await this.diskDirectory()) !== undefined
    return describeIsolation(facts, isClosed, isDiskMeasured, await network.linkLocalFailure(facts))
  }

  /** Volumes are on its file system. Readable by root, where the engine runs on this machine. */
  diskDirectory(): Promise<string | undefined> {
    this.#diskDirectory ??= this.#findDiskDirectory().catch((error: unknown) => {
      this.#diskDirectory = undefined
      throw error
    })
    return this.#diskDirectory
  }

  async #findDiskDirectory(): Promise<string | undefined> {
    const { isLocal, directory } = await fetchEngineInfo(this.#deps.engine)
    const isReadable = isLocal && directory !== undefined && process.getuid?.() === 0
    return isReadable && (await exists(directory)) ? directory : undefined
  }

  async diskUsage(id: string): Promise<number | undefined> {
    const [volume] = await this.#deps.objects.listVolumes(id)
    const [container] = await this.#deps.objects.listContainers(id)
    if (volume === undefined || (await this.diskDirectory()) === undefined) return undefined
    const pid = container && (await this.#deps.objects.inspect(container.Id))?.State.Pid
    return await measureFolder(volume.Mountpoint, async () =>
      pid ? [pid, ...listDescendants(await listProcesses(), pid).map((each) => each.pid)] : [],
    )
  }

  async pauseAbove(id: string, limitBytes: number): Promise<number | undefined> {
    const { engine, objects } = this.#deps
    const [container] = await objects.listContainers(id)
    // Each further question lets a fast writer write more.
    if (container?.State !== 'running') return undefined
    return await this.#whileFrozen(id, async () => {
      const path = `/containers/${container.Id}`
      // One that the engine cannot pause is measured while it runs.
      const isPaused = (await engine.call('POST', `${path}/pause`)).ok
      let bytes: number | undefined
      try {
        bytes = await this.diskUsage(id)
      } finally {
        if (isPaused && (bytes === undefined || bytes <= limitBytes))
          await engine.call('POST', `${path}/unpause`)
      }
      return bytes
    })
  }

  /** `list` shows it as running meanwhile. */
  async #whileFrozen<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.#freezes.set(id, (this.#freezes.get(id) ?? 0) + 1)
    this.#frozen.add(id)
    try {
      return await work()
    } finally {
      this.#frozen.delete(id)
    }
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
      this.#deps.objects.listContainers(id),
      this.#deps.objects.listVolumes(id),
    ])
    const inspected = containers.map(({ Id }) => this.#inspections.run(() => this.#inspect(Id)))
    const found = (await Promise.all(inspected)).filter((one) => one !== undefined)
    const observed = new Map(found.map((one) => [one.id, one]))
    // Sandboxes without a container: those with a volume, and those whose start runs or has failed.
    const others = [...volumes.map(({ Labels }) => Labels[sandboxLabel] ?? ''), ...this.#knownIds(id)]
    for (const other of others) {
      if (!observed.has(other)) observed.set(other, observedFromVolume(this.#inspectContext(other)))
    }
    return [...observed.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  async pause(id: string): Promise<void> {
    for (const { Id } of await this.#deps.objects.listContainers(id)) {
      if (!(await this.#isContainerRunning(Id))) continue
      const paused = await this.#deps.engine.call('POST', `/containers/${Id}/pause`)
      if (paused.ok || !(await this.#isContainerRunning(Id))) continue
      const members = { sandbox_id: id, reason: paused.reason }
      this.#deps.log('warn', 'The container engine cannot pause; the sandbox is stopped instead', members)
      await this.#deps.engine.callOrThrow('POST', `/containers/${Id}/stop`, { query: { t: 5 } })
    }
  }

  async stop(id: string): Promise<void> {
    for (const { Id } of await this.#deps.objects.listContainers(id)) {
      if (!(await this.#isContainerRunning(Id))) continue
      await this.#deps.engine.callOrThrow('POST', `/containers/${Id}/stop`, { query: { t: 5 } })
    }
  }

  async readLog(id: string, maxBytes: number): Promise<string> {
    const [container] = await this.#deps.objects.listContainers(id)
    if (container === undefined) return ''
    // The engine counts lines alone.
    const tail = Math.ceil(maxBytes / bytesOfLine)
    const answer = await this.#deps.engine.call<unknown>('GET', `/containers/${container.Id}/logs`, {
      query: { stdout: true, stderr: true, tail },
    })
    return answer.ok && Buffer.isBuffer(answer.value) ? lastChars(decodeOutput(answer.value), maxBytes) : ''
  }

  async measureUse(id: string): Promise<SandboxUse | undefined> {
    const [container] = await this.#deps.objects.listContainers(id)
    if (container === undefined) return undefined
    const stats = await this.#deps.engine.call<ContainerStats>('GET', `/containers/${container.Id}/stats`, {
      query: { stream: false, 'one-shot': true },
    })
    return stats.ok ? toSandboxUse(stats.value) : undefined
  }

  async copyFiles(from: string, to: string, maxBytes: number): Promise<CopiedFiles> {
    const { engine, objects, ledgerId } = this.#deps
    const [source, target] = [await this.#requireRunning(from), await this.#requireRunning(to)]
    const path = `/containers/${source.containerId}`
    return await this.#whileFrozen(from, async () => {
      // One that is stopped instead would not continue its work.
      const paused = await engine.call('POST', `${path}/pause`)
      if (!paused.ok) throw new FilesError(`The container engine cannot pause it: ${paused.reason}`)
      const takenAt = Date.now() * 1000
      try {
        const volumes = { from: source.volume, to: target.volume }
        await copyVolume(engine, objects, { ...volumes, image: source.image, maxBytes, ledgerId })
        // Another server, or a person, may have continued it.
        if ((await objects.inspect(source.containerId))?.State.Paused !== true)
          throw new FilesError('The sandbox continued while its files were copied. Try again.')
      } finally {
        await engine.call('POST', `${path}/unpause`)
      }
      return { takenAt }
    })
  }

  async #requireRunning(id: string) {
    const { objects } = this.#deps
    const [container] = await objects.listContainers(id)
    const [volume] = await objects.listVolumes(id)
    const inspected = container && (await objects.inspect(container.Id))
    if (volume === undefined || inspected?.State.Running !== true || inspected.State.Paused)
      throw new FilesError('Its files are copied while it runs.')
    return { containerId: inspected.Id, image: inspected.Image, volume: volume.Name }
  }

  async remove(id: string): Promise<void> {
    const { objects, ledgerId } = this.#deps
    await objects.removeContainers(id)
    for (const { Name } of await objects.listVolumes(id)) await removeCopier(objects, { to: Name, ledgerId })
    await objects.removeVolumes(id)
    this.#failures.delete(id)
    this.#lastOutputs.delete(id)
  }

  /** Returns why it cannot run; undefined when it runs. Rejects with temporary failures. */
  async #ensureRunning(config: SandboxConfig): Promise<string | undefined> {
    for (const { Id } of await this.#deps.objects.listContainers(config.id)) {
      const container = await this.#deps.objects.inspect(Id)
      if (container === undefined) continue
      if (container.State.Paused) {
        await this.#deps.engine.callOrThrow('POST', `/containers/${Id}/unpause`)
        return undefined
      }
      if (container.State.Running) return undefined
      const hasEnded = container.State.Status === 'exited'
      if (hasEnded && container.Config.Labels[configHashLabel] === configHash(config)) {
        if ((await this.#deps.engine.call('POST', `/containers/${Id}/start`)).ok) return undefined
      }
      await this.#deps.objects.removeContainer(Id)
    }
    return await this.#launcher.launch(config)
  }

  async #isContainerRunning(containerId: string): Promise<boolean> {
    const container = await this.#deps.objects.inspect(containerId)
    return container?.State.Running === true && !container.State.Paused
  }

  async #inspect(containerId: string): Promise<ObservedSandbox | undefined> {
    const freezesBefore = new Map(this.#freezes)
    const container = await this.#deps.objects.inspect(containerId)
    const id = container?.Config.Labels[sandboxLabel]
    if (container === undefined || id === undefined) return undefined
    const observed = toObservedSandbox(container, this.#inspectContext(id))
    // One that is frozen for a copy, or to be measured, runs, as far as others see it.
    const wasFrozen = this.#frozen.has(id) || this.#freezes.get(id) !== freezesBefore.get(id)
    if (observed.state === 'paused' && wasFrozen) return { ...observed, state: 'running' }
    if (observed.state !== 'stopped') return observed
    const text = await this.#readLastOutput(containerId, observed)
    return text === '' ? observed : { ...observed, detail: `${observed.detail} It printed last:\n${text}` }
  }

  /** The end of its output; cached, as its processes have ended. */
  async #readLastOutput(containerId: string, { id, epoch }: ObservedSandbox): Promise<string> {
    const cached = this.#lastOutputs.get(id)
    if (cached?.epoch === epoch) return cached.text
    const answer = await this.#deps.engine.call<unknown>('GET', `/containers/${containerId}/logs`, {
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
    return { id, isStarting: this.#starting.has(id), failure: this.#failures.get(id) }
  }
}
