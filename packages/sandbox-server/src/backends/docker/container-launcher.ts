import { setTimeout } from 'node:timers/promises'
import type { Log } from '@slipway/protocol'
import type { VolumeInspectInfo } from 'dockerode'
import type { Order } from '../backend.ts'
import { containerOf, type Place } from './container-options.ts'
import type { Objects } from './docker-objects.ts'
import { type Answer, type Engine, workLimitMs } from './engine.ts'
import { factsOf, hostAddressOf } from './engine-info.ts'
import { labelsOf } from './labels.ts'
import type { Network } from './network.ts'
import { directoriesOf, faultOf, workspace } from './sandbox-paths.ts'
import { tarOfDirectories } from './tar.ts'

const pullLimitMs = 15 * 60_000
const mostAttempts = 3
const mostLooks = 50
const lookAgainMs = 200

interface Parts {
  readonly engine: Engine
  readonly objects: Objects
  readonly network: Network
  readonly ledgerId: string
  readonly log: Log
  readonly publishHost: string
  readonly defaultImage: string
}

/** Makes the volume and the container of a sandbox and starts it. */
export class Launch {
  readonly #parts: Parts
  /** Undefined: it is not known yet whether the engine has an init process to give. */
  #hasInit: boolean | undefined

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /**
   * Answers why the sandbox cannot run, or undefined when it does. There is no container of it yet; what an earlier call has left
   * besides is used. The volume comes first, so that a sandbox that is cut off while it is made is found by it.
   */
  async run(order: Order): Promise<string | undefined> {
    const { engine, network, ledgerId, publishHost, defaultImage } = this.#parts
    const name = `${network.name}-${order.id}`
    const volume = await this.#ensureVolume(order, name)
    if (!volume.ok) return volume.reason
    const image = order.image ?? defaultImage
    const fault = faultOf(order) ?? (await this.#ensureImage(image))
    if (fault !== undefined) return fault
    const place = await network.ensure()
    if (!place.ok) return `The container engine made no network: ${place.reason}`
    const { networkId, gateway } = place.value
    const facts = await factsOf(engine)
    return await this.#tryToStart(order, {
      ledgerId,
      image,
      name,
      volume: name,
      network: networkId,
      hostAddress: hostAddressOf(facts, gateway),
      publishHost,
      can: facts.can,
    })
  }

  /**
   * A port that was free when the container was made may be taken when it starts, so it is made again with another one; and
   * without an init process at last, where no container of this engine has shown that it has one. What could not be started at
   * last stays: the engine remembers with it why.
   */
  async #tryToStart(order: Order, place: Omit<Place, 'hasInit'>): Promise<string | undefined> {
    for (let attempt = 1; ; attempt += 1) {
      const hasInit = this.#hasInit ?? attempt < mostAttempts
      const started = await this.#start(order, { ...place, hasInit })
      if (started.ok) {
        this.#hasInit ??= hasInit
        return undefined
      }
      // A wrong order does not get better.
      const isLast = attempt === mostAttempts || started.status === 400
      if (isLast || !(await this.#makeRoom(order, place.name))) {
        return `The container engine could not start it: ${started.reason}`
      }
    }
  }

  /**
   * Removes what there is of the sandbox besides its volume. False when somebody else's container has its name. One that
   * nobody sees yet may have it too: an engine goes on with what a process asked for that has ended since.
   */
  async #makeRoom(order: Order, name: string): Promise<boolean> {
    const { objects } = this.#parts
    for (let look = 0; look < mostLooks; look += 1) {
      await objects.removeContainers(order.id)
      const holder = await objects.inspect(name)
      if (holder !== undefined && !objects.isOwn(holder.Config.Labels, order.id)) return false
      if (holder === undefined && look > 0) return true
      await setTimeout(lookAgainMs)
    }
    return true
  }

  async #start(order: Order, place: Place): Promise<Answer<unknown>> {
    const { engine } = this.#parts
    const made = await engine.call<{ readonly Id: string }>({
      method: 'POST',
      path: '/containers/create',
      query: { name: place.name },
      body: containerOf(order, place),
      limitMs: workLimitMs,
    })
    if (!made.ok) return made
    const path = `/containers/${made.value.Id}`
    const filled = await engine.call({
      method: 'PUT',
      path: `${path}/archive`,
      query: { path: workspace },
      tar: tarOfDirectories(directoriesOf(order)),
      limitMs: workLimitMs,
    })
    return filled.ok
      ? await engine.call({ method: 'POST', path: `${path}/start`, limitMs: workLimitMs })
      : filled
  }

  async #ensureVolume(order: Order, name: string): Promise<Answer<unknown>> {
    const { engine, objects, ledgerId } = this.#parts
    const path = `/volumes/${name}`
    const found = await engine.call<VolumeInspectInfo>({ method: 'GET', path })
    if (!found.ok) {
      await engine.must({
        method: 'POST',
        path: '/volumes/create',
        body: { Name: name, Driver: 'local', Labels: labelsOf(ledgerId, order) },
        limitMs: workLimitMs,
      })
    }
    const volume = found.ok ? found.value : await engine.must<VolumeInspectInfo>({ method: 'GET', path })
    if (objects.isOwn(volume.Labels, order.id)) return { ok: true, value: null }
    return { ok: false, status: 409, reason: `The volume ${name} is there already, and somebody else's.` }
  }

  /** Answers why the image is not there. The one that is built here is not asked for elsewhere: anybody could have that name. */
  async #ensureImage(image: string): Promise<string | undefined> {
    const { engine, log, defaultImage } = this.#parts
    const path = `/images/${image.split('/').map(encodeURIComponent).join('/')}/json`
    const found = await engine.call({ method: 'GET', path })
    if (found.ok) return undefined
    if (found.status !== 404) return `The image ${image} cannot be used: ${found.reason}`
    if (image === defaultImage && !image.includes('/')) {
      return `The image ${image} is not there: build it with \`npm run image\`.`
    }
    log('info', 'An image is fetched', { image })
    const pulled = await engine.pull(image, pullLimitMs)
    if (pulled.ok) return undefined
    return `The image ${image} is not there: build it with \`npm run image\` or pull it. Pulling it failed: ${pulled.reason}`
  }
}
