import { setTimeout as sleep } from 'node:timers/promises'
import * as k8s from '@kubernetes/client-node'
import {
  type Namespace,
  openNamespace,
  serverSettings,
  type TestCluster,
} from '../../../packages/sandbox-server/src/backends/kubernetes/testing/test-cluster.ts'
import { markAllForDeletion } from './process-resources.ts'
import { SandboxServer } from './server.ts'
import { createUser, type User } from './user.ts'

/**
 * A sandbox server on this machine whose sandboxes are Pods of a separate namespace, with the rights of
 * the documented Role alone. Disposal deletes all sandboxes and rejects when an object of one is left.
 */
export class KubernetesSandboxServer implements AsyncDisposable {
  readonly server: SandboxServer
  readonly user: User
  readonly cluster: TestCluster
  readonly namespace: Namespace

  private constructor(server: SandboxServer, user: User, cluster: TestCluster, namespace: Namespace) {
    this.server = server
    this.user = user
    this.cluster = cluster
    this.namespace = namespace
  }

  static async open(
    cluster: TestCluster,
    env: Readonly<Record<string, string>> = {},
    apiServer?: string,
  ): Promise<KubernetesSandboxServer> {
    const namespace = await openNamespace(cluster, apiServer)
    try {
      const settings: Record<string, string> = {
        ...serverSettings(namespace),
        // Only watches show in time what happens in the cluster.
        SLIPWAY_RECONCILE_SECONDS: '3600',
        ...env,
      }
      const server = await SandboxServer.prepare({ host: cluster.host, env: settings })
      settings.SLIPWAY_INTERNAL_URL = server.url
      await server.start()
      return new KubernetesSandboxServer(server, await createUser(server), cluster, namespace)
    } catch (error) {
      await namespace[Symbol.asyncDispose]()
      throw error
    }
  }

  async pods(): Promise<readonly k8s.V1Pod[]> {
    return (await this.cluster.core.listNamespacedPod({ namespace: this.namespace.name })).items
  }

  /** The one Pod of a sandbox. */
  async pod(id: string): Promise<k8s.V1Pod> {
    const found = (await this.pods()).filter(
      ({ metadata }) => metadata?.labels?.['slipway.dev/sandbox'] === id,
    )
    if (found[0] === undefined || found.length > 1) throw new Error(`${id} has ${found.length} Pods`)
    return found[0]
  }

  async resources(): Promise<readonly string[]> {
    const query = { namespace: this.namespace.name, labelSelector: 'slipway.dev/sandbox' }
    const networking = this.cluster.config.makeApiClient(k8s.NetworkingV1Api)
    const lists = await Promise.all([
      this.cluster.core.listNamespacedPod(query),
      this.cluster.core.listNamespacedPersistentVolumeClaim(query),
      this.cluster.core.listNamespacedSecret(query),
      networking.listNamespacedNetworkPolicy(query),
    ])
    return lists.flatMap(({ kind, items }) => items.map(({ metadata }) => `${kind} ${metadata?.name}`))
  }

  async waitUntilGone(): Promise<void> {
    let left: readonly string[] = []
    for (const deadline = Date.now() + 90_000; Date.now() < deadline; await sleep(100)) {
      left = await this.resources()
      if (left.length === 0) return
    }
    throw new Error(`still there:\n${left.join('\n')}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.server.stop('SIGKILL')
      markAllForDeletion(this.server.data)
      await this.server.start({ env: { SLIPWAY_WARM_POOL: '0', SLIPWAY_RECONCILE_SECONDS: '1' } })
      await this.waitUntilGone()
    } finally {
      await this.server[Symbol.asyncDispose]().finally(() => this.namespace[Symbol.asyncDispose]())
    }
  }
}
