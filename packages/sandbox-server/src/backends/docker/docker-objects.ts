import { setTimeout } from 'node:timers/promises'
import type { ContainerInfo, ContainerInspectInfo, VolumeInspectInfo } from 'dockerode'
import type { Engine } from './engine.ts'
import { ledgerLabel, sandboxLabel } from './labels.ts'

const maxChecks = 50

type Labels = Readonly<Record<string, string>> | null | undefined

/** The containers and volumes of one ledger in an engine. Ignores those without its label. */
export class DockerObjects {
  readonly #engine: Engine
  readonly #ledgerId: string

  constructor(engine: Engine, ledgerId: string) {
    this.#engine = engine
    this.#ledgerId = ledgerId
  }

  /** Of one sandbox or of all. */
  async listContainers(id?: string): Promise<readonly ContainerInfo[]> {
    const found = await this.#engine.callOrThrow<readonly ContainerInfo[]>('GET', '/containers/json', {
      query: { all: true, filters: this.#filters(id) },
    })
    return found.filter(({ Labels }) => this.isOwn(Labels, id))
  }

  async listVolumes(id?: string): Promise<readonly VolumeInspectInfo[]> {
    const found = await this.#engine.callOrThrow<{ readonly Volumes?: readonly VolumeInspectInfo[] | null }>(
      'GET',
      '/volumes',
      { query: { filters: this.#filters(id) } },
    )
    return (found.Volumes ?? []).filter(({ Labels }) => this.isOwn(Labels, id))
  }

  async inspect(containerId: string): Promise<ContainerInspectInfo | undefined> {
    const answer = await this.#engine.call<ContainerInspectInfo>('GET', `/containers/${containerId}/json`)
    if (answer.ok) return answer.value
    if (answer.status === 404) return undefined
    throw new Error(`The container engine does not tell of ${containerId}: ${answer.reason}`)
  }

  /** Kills it first, also when it is paused. Nothing when it is gone. */
  async removeContainer(containerId: string): Promise<void> {
    const removed = await this.#engine.call('DELETE', `/containers/${containerId}`, {
      query: { force: true, v: true },
    })
    if (removed.ok || removed.status === 404) return
    // Refused while another call removes it.
    for (let look = 0; look < maxChecks; look += 1) {
      if ((await this.inspect(containerId)) === undefined) return
      await setTimeout(100)
    }
    throw new Error(`The container engine did not remove ${containerId}: ${removed.reason}`)
  }

  async removeContainers(id: string): Promise<void> {
    for (const { Id } of await this.listContainers(id)) await this.removeContainer(Id)
  }

  async removeVolumes(id: string): Promise<void> {
    for (const { Name } of await this.listVolumes(id)) {
      const removed = await this.#engine.call('DELETE', `/volumes/${encodeURIComponent(Name)}`)
      if (removed.ok || removed.status === 404) continue
      throw new Error(`The container engine did not remove the volume ${Name}: ${removed.reason}`)
    }
  }

  isOwn(labels: Labels, id?: string): boolean {
    if (labels?.[ledgerLabel] !== this.#ledgerId || labels[sandboxLabel] === undefined) return false
    return id === undefined || labels[sandboxLabel] === id
  }

  #filters(id: string | undefined): string {
    const label = [`${ledgerLabel}=${this.#ledgerId}`]
    if (id !== undefined) label.push(`${sandboxLabel}=${id}`)
    return JSON.stringify({ label })
  }
}
