import { setTimeout } from 'node:timers/promises'
import type { KubernetesObject, V1Pod } from '@kubernetes/client-node'
import { isRecord } from '@slipway/shared/json'
import type { Cluster, CustomResource, Response } from './cluster.ts'
import { ledgerSelector, sandboxOf } from './labels.ts'
import type { RemakeState, Workload } from './workload.ts'

/*
 * Pods that the controller of kubernetes-sigs/agent-sandbox makes, from one object of kind Sandbox each.
 *
 * A Sandbox has the template of a Pod and an operating mode. While it is Running, the controller makes the
 * Pod whenever it is missing, also after a drain; a Pod that has failed stays. While it is Suspended, the
 * controller deletes the Pod. The Pod has the name of the Sandbox and the labels of the template, so all
 * that reads Pods works as without the controller. The volume stays ours: it is the anchor of the other
 * objects, and has to exist before a Sandbox and after it.
 *
 * Invariants: a Pod is deleted by way of its Sandbox alone, as the controller would make it again; and the
 * template changes only while no Pod is there, as the controller does not compare a Pod with it.
 *
 * docs/decisions/0052-agent-sandbox.md
 */

const resource: CustomResource = { group: 'agents.x-k8s.io', version: 'v1beta1', plural: 'sandboxes' }
const releases = 'https://github.com/kubernetes-sigs/agent-sandbox/releases'
/** Until the controller must have made a Pod; then the start is repeated. */
const createTimeoutMs = 30_000
const pollMs = 100
/** What no repetition of the controller changes. */
const refusal = /exceeded quota|violates PodSecurity|is forbidden|is invalid/

interface SandboxObject extends KubernetesObject {
  readonly spec?: { readonly operatingMode?: string }
  readonly status?: { readonly conditions?: readonly Condition[] }
}

interface Condition {
  readonly type?: string
  readonly reason?: string
  readonly message?: string
  readonly observedGeneration?: number
}

export class AgentSandboxes implements Workload {
  readonly #cluster: Cluster
  readonly #ledgerId: string
  #isAvailable = false

  constructor(cluster: Cluster, ledgerId: string) {
    this.#cluster = cluster
    this.#ledgerId = ledgerId
  }

  async assertAvailable(): Promise<void> {
    // An API server that is away may come later.
    this.#isAvailable ||= await this.#cluster.serves(resource).catch(() => true)
    if (this.#isAvailable) return
    const { plural, group, version } = resource
    throw new Error(
      `The cluster does not have kubernetes-sigs/agent-sandbox: it does not serve ${plural}.${group} in version ${version}. Install its custom resources and its controller (${releases}), or set SLIPWAY_BACKEND=kubernetes, which needs neither.`,
    )
  }

  async create({ metadata, spec }: V1Pod): Promise<Response<unknown>> {
    const { name = '', labels = {}, ownerReferences = [] } = metadata ?? {}
    const podTemplate = { metadata: { labels }, spec }
    const id = sandboxOf(metadata) ?? ''
    const isThere = (await this.#find(id)) !== undefined
    const written = isThere
      ? await this.#patch(name, [
          { op: 'add', path: '/spec/podTemplate', value: podTemplate },
          { op: 'add', path: '/spec/operatingMode', value: 'Running' },
        ])
      : await this.#cluster.createCustom(resource, {
          apiVersion: `${resource.group}/${resource.version}`,
          kind: 'Sandbox',
          metadata: { name, labels, ownerReferences },
          // Without a Service: the control plane calls Pods by their addresses.
          spec: { podTemplate, operatingMode: 'Running', service: false },
        })
    if (!written.ok && written.status === 409)
      return { ...written, reason: `The Sandbox ${name} exists and does not belong to this server.` }
    return written.ok ? await this.#awaitPod(id, name) : written
  }

  async isKept(id: string): Promise<boolean> {
    return isRunning(await this.#find(id))
  }

  async end({ metadata }: V1Pod): Promise<void> {
    const { name = '' } = metadata ?? {}
    const suspended = await this.#patch(name, [
      { op: 'add', path: '/spec/operatingMode', value: 'Suspended' },
    ])
    if (suspended.ok) return
    if (suspended.status !== 404)
      throw new Error(`The Sandbox ${name} cannot be suspended: ${suspended.reason}`)
    // Another program has deleted it, and the cluster has not removed its Pod yet.
    await this.#cluster.deletePod(name, { uid: metadata?.uid, graceSeconds: 1 })
  }

  async remove(name: string): Promise<void> {
    await this.#cluster.deleteCustom(resource, name)
  }

  async listRemade(id?: string): Promise<ReadonlyMap<string, RemakeState>> {
    const found = (await this.#list(id)).filter(isRunning)
    return new Map(found.map((each) => [sandboxOf(each.metadata) ?? '', toRemakeState(each)] as const))
  }

  /** A Pod appears some milliseconds after its Sandbox. */
  async #awaitPod(id: string, name: string): Promise<Response<unknown>> {
    const selector = ledgerSelector(this.#ledgerId, id)
    for (const deadline = Date.now() + createTimeoutMs; ; await setTimeout(pollMs)) {
      const [pod] = await this.#cluster.listPods(selector)
      if (pod !== undefined && pod.metadata?.deletionTimestamp === undefined) return { ok: true, value: pod }
      const sandbox = await this.#find(id)
      const { state, detail } = toRemakeState(sandbox)
      if (state === 'broken') return { ok: false, status: 403, reason: detail }
      if (Date.now() > deadline) throw new Error(`${name}: ${detail}`)
    }
  }

  async #find(id: string): Promise<SandboxObject | undefined> {
    return (await this.#list(id))[0]
  }

  #list(id?: string): Promise<readonly SandboxObject[]> {
    return this.#cluster.listCustom<SandboxObject>(resource, ledgerSelector(this.#ledgerId, id))
  }

  #patch(name: string, operations: readonly object[]): Promise<Response<unknown>> {
    return this.#cluster.patchCustom(resource, name, operations)
  }
}

/** The cluster writes the usual mode into each. */
function isRunning(sandbox: SandboxObject | undefined): boolean {
  return sandbox !== undefined && sandbox.spec?.operatingMode !== 'Suspended'
}

/** Why its Pod is missing. */
export function toRemakeState(sandbox: SandboxObject | undefined): RemakeState {
  const ready = sandbox?.status?.conditions?.find((each) => isRecord(each) && each.type === 'Ready')
  if (ready === undefined)
    return {
      state: 'starting',
      detail: `The controller of kubernetes-sigs/agent-sandbox has not looked at its Sandbox: is it installed, and does it run? ${releases}`,
    }
  const { reason = '', message = '', observedGeneration = 0 } = ready
  const isCurrent = observedGeneration >= (sandbox?.metadata?.generation ?? 0)
  const isRefused = isCurrent && reason === 'ReconcilerError' && refusal.test(message)
  return {
    state: isRefused ? 'broken' : 'starting',
    detail: `The controller of agent-sandbox has not made its Pod: ${message || reason}`,
  }
}
