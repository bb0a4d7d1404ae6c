import type { V1Pod } from '@kubernetes/client-node'
import type { Cluster, Response } from './cluster.ts'

/** What makes Pods again says of one: `broken` when it cannot. */
export interface RemakeState {
  readonly state: 'starting' | 'broken'
  readonly detail: string
}

/** How the Pod of a sandbox is made and ended. Everything else is the same for all of them. */
export interface Workload {
  /** Rejects with an Error that says what to install when the cluster lacks something. */
  assertAvailable(): Promise<void>
  /** Makes the Pod. A rejection is temporary; a refusal is not. */
  create(pod: V1Pod): Promise<Response<unknown>>
  /** Whether a running Pod stays. */
  isKept(id: string): Promise<boolean>
  /** Begins to end a Pod, which nothing makes again until `create`. */
  end(pod: V1Pod, graceSeconds: number): Promise<void>
  /** Ends what makes Pods of this name. The Pod itself may stay. */
  remove(name: string): Promise<void>
  /** Of sandboxes whose Pod something makes again when it is missing, by id. */
  listRemade(id?: string): Promise<ReadonlyMap<string, RemakeState>>
}

/** A Pod that nothing makes again. */
export class PlainPods implements Workload {
  readonly #cluster: Cluster

  constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  async assertAvailable(): Promise<void> {}

  create(pod: V1Pod): Promise<Response<unknown>> {
    return this.#cluster.createPod(pod)
  }

  async isKept(): Promise<boolean> {
    return true
  }

  async end({ metadata }: V1Pod, graceSeconds: number): Promise<void> {
    await this.#cluster.deletePod(metadata?.name ?? '', { uid: metadata?.uid, graceSeconds })
  }

  async remove(): Promise<void> {}

  async listRemade(): Promise<ReadonlyMap<string, RemakeState>> {
    return new Map()
  }
}
