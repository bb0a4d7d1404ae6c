import { randomUUID } from 'node:crypto'
import { isIPv4 } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { KubernetesObject, V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node'
import type { LogFunction } from '@slipway/protocol'
import {
  type Backend,
  type CopiedFiles,
  FilesError,
  type Isolation,
  type ObservedSandbox,
  type SandboxConfig,
} from '../backend.ts'
import { AgentSandboxes } from './agent-sandboxes.ts'
import { Cluster, type ClusterOptions, type Response } from './cluster.ts'
import { copyPodFiles } from './copy-files.ts'
import {
  eventDetail,
  type InspectContext,
  plainOutput,
  removalDetail,
  type StartFailure,
  toObservedSandbox,
} from './inspect.ts'
import {
  ledgerLabel,
  ledgerSelector,
  objectName,
  pausedAnnotation,
  sandboxLabel,
  sandboxOf,
} from './labels.ts'
import {
  graceSeconds,
  isPaused,
  networkPolicyOf,
  type ObjectContext,
  ownerReference,
  podOf,
  podPorts,
  secretOf,
  validateConfig,
  volumeOf,
} from './objects.ts'
import { Tunnels } from './tunnels.ts'
import { PlainPods, type RemakeState, type Workload } from './workload.ts'

/** Until a Pod or volume that is being deleted must be gone; then the step is repeated. */
const goneTimeoutMs = 60_000
const pollMs = 200
/** A Pod that is older and still starts may have events that say why. */
const eventsAfterMs = 2_000
const eventsEveryMs = 2_000
const logLines = 20

export interface KubernetesBackendOptions extends ClusterOptions {
  /** `agent-sandbox`: the controller of kubernetes-sigs/agent-sandbox makes the Pods. `kubernetes`: we do. */
  readonly name?: 'kubernetes' | 'agent-sandbox'
  readonly ledgerId: string
  readonly log: LogFunction
  /** For specs without an image. */
  readonly defaultImage: string
  /** `pod`: by the addresses of Pods; `api`: through the API server; `auto`: by where this process runs. */
  readonly reach: 'auto' | 'pod' | 'api'
  /** URL at which Pods reach this server; undefined: not at all. */
  readonly internalUrl: string | undefined
  /** For sockets that lead through the API server. */
  readonly directory: string
}

interface Parts {
  readonly cluster: Cluster
  readonly workload: Workload
  readonly objects: ObjectContext
  readonly tunnels: Tunnels | undefined
}

/** Of a log: lines of agent servers are longer. */
const bytesOfLine = 80

/**
 * Sandboxes as Pods: a Pod, which is removed by a pause, and a PersistentVolumeClaim, a Secret and a
 * NetworkPolicy each, all in one namespace. `agent-sandbox`: with an object that makes the Pod.
 */
export class KubernetesBackend implements Backend {
  readonly name: 'kubernetes' | 'agent-sandbox'
  readonly appliesConfigOnResume = true
  readonly #options: KubernetesBackendOptions
  #parts: Promise<Parts> | undefined
  readonly #starting = new Set<string>()
  readonly #failures = new Map<string, StartFailure>()
  readonly #lastDetails = new Map<string, string>()
  readonly #lastOutputs = new Map<string, { readonly epoch: string; readonly text: string }>()
  readonly #eventDetails = new Map<string, { readonly atMs: number; readonly text: string | undefined }>()

  constructor(options: KubernetesBackendOptions) {
    const { name = 'kubernetes', ledgerId } = options
    this.name = name
    // Each of two backends in one namespace ignores what the other one has made.
    this.#options = name === 'kubernetes' ? options : { ...options, ledgerId: `${ledgerId}.${name}` }
  }

  hostUrl(_port: number, network: SandboxConfig['network']): string | undefined {
    return network === 'none' ? undefined : this.#options.internalUrl
  }

  async isolation(): Promise<Isolation> {
    const { workload } = await this.#open()
    await workload.assertAvailable()
    return {
      kind: 'container',
      enforced: ['memoryBytes', 'cpus'],
      notes: [
        'A pause ends the processes of a sandbox and keeps its files: memory is lost.',
        'The network plugin of the cluster must enforce NetworkPolicies: without that sandboxes reach each other and the cluster.',
        'The number of processes is limited by the kubelet (podPidsLimit), disk space by the storage class.',
      ],
    }
  }

  async start(config: SandboxConfig): Promise<void> {
    const { id } = config
    this.#starting.add(id)
    this.#forget(id)
    try {
      const reason = await this.#ensurePod(config)
      if (reason !== undefined) this.#failures.set(id, { reason, epoch: `failed-${randomUUID()}` })
    } finally {
      this.#starting.delete(id)
    }
  }

  resume(config: SandboxConfig): Promise<void> {
    return this.start(config)
  }

  async list(id?: string): Promise<readonly ObservedSandbox[]> {
    const { cluster, workload } = await this.#open()
    const selector = ledgerSelector(this.#options.ledgerId, id)
    const [pods, volumes, remade] = await Promise.all([
      cluster.listPods(selector),
      cluster.listVolumes(selector),
      workload.listRemade(id),
    ])
    const podsById = byId(pods)
    const volumesById = byId(volumes)
    const known = [...this.#starting, ...this.#failures.keys()].filter(
      (one) => id === undefined || one === id,
    )
    const ids = new Set([...podsById.keys(), ...volumesById.keys(), ...known])
    const observed = await Promise.all(
      [...ids].map((one) =>
        this.#inspect(podsById.get(one), volumesById.get(one), this.#context(one, remade.get(one))),
      ),
    )
    return observed.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Deletes the Pod and keeps the volume. */
  async pause(id: string): Promise<void> {
    const { cluster } = await this.#open()
    const name = this.#objectName(id)
    const pod = await this.#findPod(id)
    if (pod === undefined || hasEnded(pod)) return
    const marked = await cluster.annotateVolume(name, { [pausedAnnotation]: new Date().toISOString() })
    if (!marked.ok) throw new Error(`The volume of ${id} cannot be marked as paused: ${marked.reason}`)
    await this.#endPod(pod, graceSeconds)
  }

  async copyFiles(from: string, to: string, maxBytes: number): Promise<CopiedFiles> {
    const { cluster } = await this.#open()
    const [source, target] = [await this.#requireRunning(from), await this.#requireRunning(to)]
    return await copyPodFiles(cluster, source, target, maxBytes)
  }

  /** The name of its Pod. */
  async #requireRunning(id: string): Promise<string> {
    const pod = await this.#findPod(id)
    if (pod?.status?.phase !== 'Running' || hasEnded(pod) || isTerminating(pod))
      throw new FilesError('Its files are copied while it runs.')
    return pod.metadata?.name ?? ''
  }

  /** A pause ends its processes too. */
  stop(id: string): Promise<void> {
    return this.pause(id)
  }

  async readLog(id: string, maxBytes: number): Promise<string> {
    const { cluster } = await this.#open()
    const pod = await this.#findPod(id)
    if (pod === undefined) return ''
    const tail = Math.ceil(maxBytes / bytesOfLine)
    // The cluster cuts the end of what is longer.
    const text = await cluster.readLog(pod.metadata?.name ?? '', tail, maxBytes * 16)
    return plainOutput(text, maxBytes)
  }

  async remove(id: string): Promise<void> {
    const { cluster, workload } = await this.#open()
    const name = this.#objectName(id)
    const pod = await this.#findPod(id)
    const volumes = await this.#findVolumes(id)
    // What has none of our labels belongs to somebody else.
    if (pod === undefined && volumes.length === 0) return this.#forget(id)
    await workload.remove(name)
    if (pod !== undefined) {
      await cluster.deletePod(name, { uid: pod.metadata?.uid, graceSeconds: 1 })
      await waitGone(`the Pod ${name}`, async () => (await this.#findPod(id)) === undefined)
    }
    await cluster.deleteSecret(name)
    await cluster.deleteNetworkPolicy(name)
    for (const { metadata } of volumes) await cluster.deleteVolume(metadata?.name ?? name)
    await waitGone(`the volume ${name}`, async () => (await this.#findVolumes(id)).length === 0)
    this.#forget(id)
  }

  /** Calls back with the id of each sandbox whose Pod or volume changes. */
  watchChanges(onChange: (id: string) => void): Disposable {
    const { ledgerId, log } = this.#options
    let isStopped = false
    let watch: Disposable | undefined
    const begin = async () => {
      const { cluster } = await this.#open()
      if (isStopped) return
      const onObject = (object: KubernetesObject) => {
        const id = sandboxOf(object.metadata)
        if (id === undefined) return
        if (isPod(object)) this.#rememberEnd(id, object)
        onChange(id)
      }
      watch = cluster.watch(ledgerSelector(ledgerId), onObject, log)
    }
    begin().catch((error: unknown) => log('warn', 'the cluster cannot be watched', { error: String(error) }))
    return {
      [Symbol.dispose]: () => {
        isStopped = true
        watch?.[Symbol.dispose]()
      },
    }
  }

  /** Returns why it cannot run; undefined when its Pod exists. Rejects with temporary failures. */
  async #ensurePod(config: SandboxConfig): Promise<string | undefined> {
    const { cluster, workload, objects } = await this.#open()
    const [existing, [found]] = await Promise.all([this.#findPod(config.id), this.#findVolumes(config.id)])
    const isAlive = existing !== undefined && !hasEnded(existing) && !isTerminating(existing)
    if (isAlive && (await workload.isKept(config.id))) return undefined
    const volume = await this.#ensureVolume(config, found)
    if (!volume.ok) return volume.reason
    const invalidReason = validateConfig(config)
    if (invalidReason !== undefined) return invalidReason
    if (existing !== undefined) await this.#endPod(existing, 1)
    const owner = ownerReference(volume.value)
    const [secret, policy] = await Promise.all([
      cluster.putSecret(secretOf(config, objects, owner)),
      cluster.putNetworkPolicy(networkPolicyOf(config, objects, owner)),
    ])
    if (!secret.ok) return `Its Secret cannot be made: ${secret.reason}`
    if (!policy.ok) return `Its NetworkPolicy cannot be made: ${policy.reason}`
    if (isPaused(volume.value)) {
      const name = this.#objectName(config.id)
      const unmarked = await cluster.annotateVolume(name, { [pausedAnnotation]: null })
      if (!unmarked.ok) throw new Error(`The volume of ${config.id} cannot be unmarked: ${unmarked.reason}`)
    }
    const pod = await workload.create(podOf(config, objects, owner))
    if (pod.ok) return undefined
    // A request of an ended process may have created it.
    if (pod.status === 409 && (await this.#findPod(config.id)) !== undefined) return undefined
    return refusalText('Pod', pod.reason)
  }

  async #ensureVolume(
    config: SandboxConfig,
    existing: V1PersistentVolumeClaim | undefined,
  ): Promise<Response<V1PersistentVolumeClaim>> {
    const { cluster, objects } = await this.#open()
    if (existing !== undefined && !isTerminating(existing)) return { ok: true, value: existing }
    const name = this.#objectName(config.id)
    if (existing !== undefined)
      await waitGone(`the volume ${name}`, async () => (await this.#findVolumes(config.id)).length === 0)
    const created = await cluster.createVolume(volumeOf(config, objects))
    if (created.ok) return created
    if (created.status !== 409)
      return { ...created, reason: refusalText('PersistentVolumeClaim', created.reason) }
    const [found] = await this.#findVolumes(config.id)
    if (found !== undefined) return { ok: true, value: found }
    return { ...created, reason: `The volume ${name} exists and does not belong to this server.` }
  }

  async #endPod(pod: V1Pod, grace: number): Promise<void> {
    const { workload } = await this.#open()
    const { name = '', uid, labels } = pod.metadata ?? {}
    await workload.end(pod, grace)
    const id = labels?.[sandboxLabel] ?? ''
    await waitGone(`the Pod ${name}`, async () => (await this.#findPod(id))?.metadata?.uid !== uid)
  }

  async #findPod(id: string): Promise<V1Pod | undefined> {
    const { cluster } = await this.#open()
    return (await cluster.listPods(ledgerSelector(this.#options.ledgerId, id)))[0]
  }

  async #findVolumes(id: string): Promise<readonly V1PersistentVolumeClaim[]> {
    const { cluster } = await this.#open()
    return await cluster.listVolumes(ledgerSelector(this.#options.ledgerId, id))
  }

  async #inspect(
    pod: V1Pod | undefined,
    volume: V1PersistentVolumeClaim | undefined,
    context: InspectContext,
  ): Promise<ObservedSandbox> {
    const observed = toObservedSandbox(pod, volume, context)
    if (pod === undefined) {
      await this.#closeTunnels(context.id)
      return observed
    }
    if (observed.state === 'running') return { ...observed, addresses: await this.#addresses(pod) }
    if (observed.state === 'starting' && observed.detail === undefined) {
      const detail = await this.#eventDetail(pod)
      return detail === undefined ? observed : { ...observed, detail }
    }
    if (observed.state !== 'stopped' || isTerminating(pod)) return observed
    const text = await this.#readLastOutput(pod, observed)
    return text === '' ? observed : { ...observed, detail: `${observed.detail} It printed last:\n${text}` }
  }

  async #addresses(pod: V1Pod): Promise<Record<string, string>> {
    const { tunnels } = await this.#open()
    const ip = pod.status?.podIP ?? ''
    const host = ip.includes(':') ? `[${ip}]` : ip
    const entries = Object.entries(podPorts).map(async ([name, port]) => {
      const address = await tunnels?.address(pod.metadata?.name ?? '', port)
      return [name, address ?? `http://${host}:${port}`] as const
    })
    return Object.fromEntries(await Promise.all(entries))
  }

  async #closeTunnels(id: string): Promise<void> {
    const { tunnels } = await this.#open()
    await tunnels?.close(this.#objectName(id), Object.values(podPorts))
  }

  /** Read again every two seconds while it starts. */
  async #eventDetail({ metadata }: V1Pod): Promise<string | undefined> {
    const { name = '', uid = '', creationTimestamp } = metadata ?? {}
    const createdMs = new Date(creationTimestamp ?? 0).getTime()
    const now = Date.now()
    if (now - createdMs < eventsAfterMs) return undefined
    const cached = this.#eventDetails.get(uid)
    if (cached !== undefined && now - cached.atMs < eventsEveryMs) return cached.text
    const { cluster } = await this.#open()
    // Whole seconds on the wire.
    const text = eventDetail(await cluster.listEvents(name), createdMs - 1_000)
    if (this.#eventDetails.size > 1_000) this.#eventDetails.clear()
    this.#eventDetails.set(uid, { atMs: now, text })
    return text
  }

  /** The end of its output; cached, as its processes have ended. */
  async #readLastOutput({ metadata }: V1Pod, { id, epoch }: ObservedSandbox): Promise<string> {
    const cached = this.#lastOutputs.get(id)
    if (cached?.epoch === epoch) return cached.text
    const { cluster } = await this.#open()
    const text = plainOutput(await cluster.readLog(metadata?.name ?? '', logLines))
    if (text !== '') this.#lastOutputs.set(id, { epoch, text })
    return text
  }

  #rememberEnd(id: string, pod: V1Pod): void {
    if (isTerminating(pod)) this.#lastDetails.set(id, removalDetail(pod))
    else this.#lastDetails.delete(id)
  }

  #context(id: string, remade: RemakeState | undefined): InspectContext {
    return {
      id,
      remade,
      isStarting: this.#starting.has(id),
      failure: this.#failures.get(id),
      lastDetail: this.#lastDetails.get(id),
    }
  }

  #forget(id: string): void {
    this.#failures.delete(id)
    this.#lastDetails.delete(id)
    this.#lastOutputs.delete(id)
  }

  #objectName(id: string): string {
    return objectName(this.#options.ledgerId, id)
  }

  #open(): Promise<Parts> {
    this.#parts ??= this.#connect().catch((error: unknown) => {
      this.#parts = undefined
      throw error
    })
    return this.#parts
  }

  async #connect(): Promise<Parts> {
    const { ledgerId, defaultImage, reach, internalUrl, directory, log } = this.#options
    const cluster = await Cluster.open(this.#options)
    const host = internalUrl === undefined ? '' : new URL(internalUrl).hostname
    const usesApi = reach === 'api' || (reach === 'auto' && !cluster.isInside)
    const isRemade = this.name === 'agent-sandbox'
    return {
      cluster,
      workload: isRemade ? new AgentSandboxes(cluster, ledgerId) : new PlainPods(cluster),
      objects: {
        ledgerId,
        defaultImage,
        controlNamespace: cluster.ownNamespace,
        controlAddress: isIPv4(host) ? host : undefined,
      },
      tunnels: usesApi ? new Tunnels(cluster, directory, log) : undefined,
    }
  }
}

function byId<T extends KubernetesObject>(objects: readonly T[]): Map<string, T> {
  const entries = objects.flatMap((object) => {
    const id = sandboxOf(object.metadata)
    return id === undefined || object.metadata?.labels?.[ledgerLabel] === undefined
      ? []
      : [[id, object] as const]
  })
  return new Map(entries)
}

const isPod = (object: KubernetesObject): object is V1Pod =>
  'spec' in object && isRecordWith(object.spec, 'containers')
const isRecordWith = (value: unknown, name: string) =>
  typeof value === 'object' && value !== null && name in value

const isTerminating = ({ metadata }: KubernetesObject) => metadata?.deletionTimestamp !== undefined

function hasEnded({ status }: V1Pod): boolean {
  return (
    status?.phase === 'Failed' ||
    status?.phase === 'Succeeded' ||
    status?.containerStatuses?.[0]?.state?.terminated !== undefined
  )
}

function refusalText(kind: string, reason: string): string {
  if (reason.includes('exceeded quota')) return `The quota of the namespace is used up: ${reason}`
  if (reason.includes('violates PodSecurity')) return `The namespace does not admit its Pod: ${reason}`
  return `The cluster refuses its ${kind}: ${reason}`
}

async function waitGone(what: string, isGone: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + goneTimeoutMs
  while (!(await isGone())) {
    if (Date.now() > deadline) throw new Error(`${what} is being deleted and still there`)
    await setTimeout(pollMs)
  }
}
