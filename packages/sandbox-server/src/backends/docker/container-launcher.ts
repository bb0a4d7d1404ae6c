import { setTimeout } from 'node:timers/promises'
import type { LogFunction } from '@slipway/protocol'
import type { VolumeInspectInfo } from 'dockerode'
import type { SandboxConfig } from '../backend.ts'
import { type ContainerContext, containerOptions } from './container-options.ts'
import type { DockerObjects } from './docker-objects.ts'
import { type Engine, type EngineResponse, longTimeoutMs } from './engine.ts'
import { fetchEngineInfo, sandboxHostAddress } from './engine-info.ts'
import { sandboxLabels } from './labels.ts'
import type { SandboxNetwork } from './network.ts'
import { initialDirectories, validateConfig, workspace } from './sandbox-paths.ts'
import { createDirectoryTar } from './tar.ts'

const pullTimeoutMs = 15 * 60_000
const maxAttempts = 3
const maxChecks = 50
const checkIntervalMs = 200

interface ContainerLauncherDeps {
  readonly engine: Engine
  readonly objects: DockerObjects
  readonly network: SandboxNetwork
  readonly ledgerId: string
  readonly log: LogFunction
  readonly publishHost: string
  readonly defaultImage: string
}

/** Makes the volume and the container of a sandbox and starts it. */
export class ContainerLauncher {
  readonly #deps: ContainerLauncherDeps
  /** Undefined: it is not known yet whether the engine has an init process to give. */
  #hasInit: boolean | undefined

  constructor(deps: ContainerLauncherDeps) {
    this.#deps = deps
  }

  /**
   * Answers why the sandbox cannot run, or undefined when it does. There is no container of it yet; what an earlier call has left
   * besides is used. The volume comes first, so that a sandbox that is cut off while it is made is found by it.
   */
  async launch(config: SandboxConfig): Promise<string | undefined> {
    const { engine, network, ledgerId, publishHost, defaultImage } = this.#deps
    const name = `${network.name}-${config.id}`
    const volume = await this.#ensureVolume(config, name)
    if (!volume.ok) return volume.reason
    const image = config.image ?? defaultImage
    const invalidReason = validateConfig(config) ?? (await this.#ensureImage(image))
    if (invalidReason !== undefined) return invalidReason
    const ensured = await network.ensure()
    if (!ensured.ok) return `The container engine made no network: ${ensured.reason}`
    const { networkId, gateway } = ensured.value
    const engineInfo = await fetchEngineInfo(engine)
    return await this.#startWithRetries(config, {
      ledgerId,
      image,
      name,
      volume: name,
      network: networkId,
      hostAddress: sandboxHostAddress(engineInfo, gateway),
      publishHost,
      capabilities: engineInfo.capabilities,
    })
  }

  /**
   * A port that was free when the container was made may be taken when it starts, so it is made again with another one; and
   * without an init process at last, where no container of this engine has shown that it has one. What could not be started at
   * last stays: the engine remembers with it why.
   */
  async #startWithRetries(
    config: SandboxConfig,
    context: Omit<ContainerContext, 'hasInit'>,
  ): Promise<string | undefined> {
    for (let attempt = 1; ; attempt += 1) {
      const hasInit = this.#hasInit ?? attempt < maxAttempts
      const started = await this.#start(config, { ...context, hasInit })
      if (started.ok) {
        this.#hasInit ??= hasInit
        return undefined
      }
      // A wrong order does not get better.
      const isLast = attempt === maxAttempts || started.status === 400
      if (isLast || !(await this.#removeConflicting(config, context.name))) {
        return `The container engine could not start it: ${started.reason}`
      }
    }
  }

  /**
   * Removes what there is of the sandbox besides its volume. False when somebody else's container has its name. One that
   * nobody sees yet may have it too: an engine goes on with what a process asked for that has ended since.
   */
  async #removeConflicting(config: SandboxConfig, name: string): Promise<boolean> {
    const { objects } = this.#deps
    for (let look = 0; look < maxChecks; look += 1) {
      await objects.removeContainers(config.id)
      const holder = await objects.inspect(name)
      if (holder !== undefined && !objects.isOwn(holder.Config.Labels, config.id)) return false
      if (holder === undefined && look > 0) return true
      await setTimeout(checkIntervalMs)
    }
    return true
  }

  async #start(config: SandboxConfig, context: ContainerContext): Promise<EngineResponse<unknown>> {
    const { engine } = this.#deps
    const created = await engine.call<{ readonly Id: string }>({
      method: 'POST',
      path: '/containers/create',
      query: { name: context.name },
      body: containerOptions(config, context),
      timeoutMs: longTimeoutMs,
    })
    if (!created.ok) return created
    const path = `/containers/${created.value.Id}`
    const filled = await engine.call({
      method: 'PUT',
      path: `${path}/archive`,
      query: { path: workspace },
      tar: createDirectoryTar(initialDirectories(config)),
      timeoutMs: longTimeoutMs,
    })
    return filled.ok
      ? await engine.call({ method: 'POST', path: `${path}/start`, timeoutMs: longTimeoutMs })
      : filled
  }

  async #ensureVolume(config: SandboxConfig, name: string): Promise<EngineResponse<unknown>> {
    const { engine, objects, ledgerId } = this.#deps
    const path = `/volumes/${name}`
    const found = await engine.call<VolumeInspectInfo>({ method: 'GET', path })
    if (!found.ok) {
      await engine.callOrThrow({
        method: 'POST',
        path: '/volumes/create',
        body: { Name: name, Driver: 'local', Labels: sandboxLabels(ledgerId, config) },
        timeoutMs: longTimeoutMs,
      })
    }
    const volume = found.ok
      ? found.value
      : await engine.callOrThrow<VolumeInspectInfo>({ method: 'GET', path })
    if (objects.isOwn(volume.Labels, config.id)) return { ok: true, value: null }
    return { ok: false, status: 409, reason: `The volume ${name} is there already, and somebody else's.` }
  }

  /** Answers why the image is not there. The one that is built here is not asked for elsewhere: anybody could have that name. */
  async #ensureImage(image: string): Promise<string | undefined> {
    const { engine, log, defaultImage } = this.#deps
    const path = `/images/${image.split('/').map(encodeURIComponent).join('/')}/json`
    const found = await engine.call({ method: 'GET', path })
    if (found.ok) return undefined
    if (found.status !== 404) return `The image ${image} cannot be used: ${found.reason}`
    if (image === defaultImage && !image.includes('/')) {
      return `The image ${image} is not there: build it with \`npm run image\`.`
    }
    log('info', 'An image is fetched', { image })
    const pulled = await engine.pull(image, pullTimeoutMs)
    if (pulled.ok) return undefined
    return `The image ${image} is not there: build it with \`npm run image\` or pull it. Pulling it failed: ${pulled.reason}`
  }
}
