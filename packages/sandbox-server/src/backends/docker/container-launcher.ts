import { setTimeout } from 'node:timers/promises'
import type { LogFunction } from '@slipway/protocol'
import type { VolumeInspectInfo } from 'dockerode'
import type { SandboxConfig } from '../backend.ts'
import { type ContainerContext, containerOptions } from './container-options.ts'
import type { DockerObjects } from './docker-objects.ts'
import type { Engine, EngineResponse } from './engine.ts'
import { fetchEngineInfo, sandboxHostAddress } from './engine-info.ts'
import { sandboxLabels } from './labels.ts'
import { findGateway, type SandboxNetwork } from './network.ts'
import { initialDirectories, validateConfig, workspace } from './sandbox-paths.ts'
import { createDirectoryTar } from './tar.ts'

const pullTimeoutMs = 15 * 60_000
const maxAttempts = 3
const maxChecks = 50
const checkIntervalMs = 200

export interface ContainerLauncherDeps {
  readonly engine: Engine
  readonly objects: DockerObjects
  readonly network: SandboxNetwork
  readonly ledgerId: string
  readonly log: LogFunction
  /** For specs without an image. */
  readonly defaultImage: string
}

/** Creates the volume and the container of a sandbox and starts it. */
export class ContainerLauncher {
  readonly #deps: ContainerLauncherDeps
  /** Whether the engine has an init process; undefined: not known yet. */
  #hasInit: boolean | undefined

  constructor(deps: ContainerLauncherDeps) {
    this.#deps = deps
  }

  /** Returns why the sandbox cannot run. The volume comes first: it shows an interrupted start. */
  async launch(config: SandboxConfig): Promise<string | undefined> {
    const { engine, network, ledgerId, defaultImage } = this.#deps
    const name = `${network.name}-${config.id}`
    const volume = await this.#ensureVolume(config, name)
    if (!volume.ok) return volume.reason
    const image = config.image ?? defaultImage
    const invalidReason = validateConfig(config) ?? (await this.#ensureImage(image))
    if (invalidReason !== undefined) return invalidReason
    const ensured = await network.ensure()
    if (!ensured.ok) return `The container engine made no network: ${ensured.reason}`
    const engineInfo = await fetchEngineInfo(engine)
    await network.linkLocalFailure(engineInfo)
    const hostAddress = sandboxHostAddress(engineInfo, findGateway(ensured.value))
    const { capabilities } = engineInfo
    const context = { ledgerId, image, name, network: ensured.value.Id, hostAddress, capabilities }
    return await this.#startWithRetries(config, context)
  }

  /** With other ports after a conflict, at last without an init process. The last failed container stays. */
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
      const isLast = attempt === maxAttempts || started.status === 400
      if (isLast || !(await this.#removeConflicting(config, context.name))) {
        return `The container engine could not start it: ${started.reason}`
      }
    }
  }

  /** A request of an ended process may still create one. False when a foreign container has its name. */
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
    const created = await engine.call<{ readonly Id: string }>('POST', '/containers/create', {
      query: { name: context.name },
      body: containerOptions(config, context),
    })
    if (!created.ok) return created
    const path = `/containers/${created.value.Id}`
    const filled = await engine.call('PUT', `${path}/archive`, {
      query: { path: workspace },
      tar: createDirectoryTar(initialDirectories(config)),
    })
    return filled.ok ? await engine.call('POST', `${path}/start`) : filled
  }

  async #ensureVolume(config: SandboxConfig, name: string): Promise<EngineResponse<unknown>> {
    const { engine, objects, ledgerId } = this.#deps
    const path = `/volumes/${name}`
    if (!(await engine.call('GET', path)).ok) {
      const body = { Name: name, Driver: 'local', Labels: sandboxLabels(ledgerId, config) }
      await engine.callOrThrow('POST', '/volumes/create', { body })
    }
    const volume = await engine.callOrThrow<VolumeInspectInfo>('GET', path)
    if (objects.isOwn(volume.Labels, config.id)) return { ok: true, value: null }
    return { ok: false, status: 409, reason: `The volume ${name} exists and does not belong to this server.` }
  }

  /** Returns why the image is missing. The default one is not pulled: its name is not reserved. */
  async #ensureImage(image: string): Promise<string | undefined> {
    const { engine, log, defaultImage } = this.#deps
    const path = `/images/${image.split('/').map(encodeURIComponent).join('/')}/json`
    const found = await engine.call('GET', path)
    if (found.ok) return undefined
    if (found.status !== 404) return `The image ${image} cannot be used: ${found.reason}`
    if (image === defaultImage && !image.includes('/')) {
      return `The image ${image} is missing: build it with \`npm run image\`.`
    }
    log('info', 'pulling an image', { image })
    const failure = await engine.pull(image, pullTimeoutMs)
    if (failure === undefined) return undefined
    return `The image ${image} is missing: build it with \`npm run image\` or pull it. Pulling it failed: ${failure}`
  }
}
