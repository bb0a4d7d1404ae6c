import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import * as k8s from '@kubernetes/client-node'
import type { BackendUnderTest } from '../../backend.contract.ts'
import { runInside } from '../../backend.contract.ts'
import type { SandboxConfig } from '../../backend.ts'
import { KubernetesBackend, type KubernetesBackendOptions } from '../kubernetes-backend.ts'
import { ledgerSelector } from '../labels.ts'
import { listSandboxNames } from './sandbox-controller.ts'

export const skipText =
  'SLIPWAY_TEST_KUBECONFIG is not set; `.ci/cluster run npx vitest run <file>` starts a cluster and sets it'

/** The image of the agent server, which `.ci/cluster` loads. */
export const agentImage = 'docker.io/library/slipway-agent-server:latest'

/** A cluster that tests may fill, with the rights of its administrator. */
export interface TestCluster {
  readonly config: k8s.KubeConfig
  readonly core: k8s.CoreV1Api
  /** Address of this machine for Pods. */
  readonly host: string
  readonly kubeconfig: string
}

/** The cluster of the environment; undefined when there is none. */
export function testCluster(): TestCluster | undefined {
  const kubeconfig = process.env.SLIPWAY_TEST_KUBECONFIG
  if (!kubeconfig) return undefined
  const config = new k8s.KubeConfig()
  config.loadFromFile(kubeconfig)
  const host = process.env.SLIPWAY_TEST_KUBERNETES_HOST ?? '127.0.0.1'
  return { config, core: config.makeApiClient(k8s.CoreV1Api), host, kubeconfig }
}

/** Settings of a sandbox server whose sandboxes are Pods of a namespace. */
export function serverSettings({ kubeconfig }: Pick<Namespace, 'kubeconfig'>): Record<string, string> {
  return {
    SLIPWAY_BACKEND: 'kubernetes',
    SLIPWAY_KUBECONFIG: kubeconfig,
    SLIPWAY_KUBERNETES_REACH: 'pod',
    SLIPWAY_SANDBOX_IMAGE: agentImage,
    SLIPWAY_SANDBOX_SPECS: JSON.stringify([{ id: 'pod', kubernetes: { image_pull_policy: 'IfNotPresent' } }]),
    SLIPWAY_SANDBOX_MEMORY_MB: '1024',
    SLIPWAY_SANDBOX_DISK_MB: '256',
  }
}

export interface Namespace extends AsyncDisposable {
  readonly name: string
  /** With the rights of the Role of the documentation in this namespace, and no others. */
  readonly kubeconfig: string
  /** A folder for the sockets of a control plane. */
  readonly directory: string
}

/**
 * A namespace that admits restricted Pods only, with a service account of the control plane, whose kubeconfig
 * names `apiServer` where it is given.
 */
export async function openNamespace({ config, core }: TestCluster, apiServer?: string): Promise<Namespace> {
  const name = `t-${randomBytes(5).toString('hex')}`
  const restricted = { 'pod-security.kubernetes.io/enforce': 'restricted' }
  await core.createNamespace({ body: { metadata: { name, labels: restricted } } })
  const directory = await mkdtemp(join(tmpdir(), 'slipway-k8s-'))
  const rbac = config.makeApiClient(k8s.RbacAuthorizationV1Api)
  await core.createNamespacedServiceAccount({ namespace: name, body: { metadata: { name: 'slipway' } } })
  await rbac.createNamespacedRole({
    namespace: name,
    body: { metadata: { name: 'slipway' }, rules: await readRules() },
  })
  await rbac.createNamespacedRoleBinding({
    namespace: name,
    body: {
      metadata: { name: 'slipway' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'slipway' },
      subjects: [{ kind: 'ServiceAccount', name: 'slipway', namespace: name }],
    },
  })
  const { status } = await core.createNamespacedServiceAccountToken({
    namespace: name,
    name: 'slipway',
    body: { spec: { audiences: [], expirationSeconds: 7_200 } },
  })
  const own = JSON.parse(config.exportConfig())
  if (apiServer !== undefined) own.clusters[0].cluster.server = apiServer
  own.users = [{ name: 'u', user: { token: status?.token } }]
  own.contexts = [{ name: 'c', context: { cluster: own.clusters[0].name, user: 'u', namespace: name } }]
  own['current-context'] = 'c'
  const kubeconfig = join(directory, 'kubeconfig')
  await writeFile(kubeconfig, JSON.stringify(own), { mode: 0o600 })
  return {
    name,
    kubeconfig,
    directory,
    [Symbol.asyncDispose]: async () => {
      // Its controllers remove the rest.
      await core.deleteNamespace({ name })
      await rm(directory, { recursive: true, force: true })
    },
  }
}

export interface KubernetesUnderTest extends BackendUnderTest {
  readonly backend: KubernetesBackend
  readonly cluster: TestCluster
  readonly namespace: Namespace
  readonly ledgerId: string
  pod(id: string): Promise<k8s.V1Pod | undefined>
}

export async function openKubernetes(
  cluster: TestCluster,
  options: Partial<KubernetesBackendOptions> = {},
): Promise<KubernetesUnderTest> {
  const namespace = await openNamespace(cluster)
  const { core } = cluster
  const ledgerId = randomBytes(16).toString('hex')
  const open = (ledger: string) =>
    new KubernetesBackend({
      kubeconfig: namespace.kubeconfig,
      reach: 'pod',
      internalUrl: undefined,
      directory: join(namespace.directory, 't'),
      ledgerId: ledger,
      log: () => {},
      defaultImage: agentImage,
      ...options,
    })
  const backend = open(ledgerId)
  const isRemade = options.name === 'agent-sandbox'
  const selectorOf = (id: string) => ledgerSelector(isRemade ? `${ledgerId}.agent-sandbox` : ledgerId, id)
  const list = async (id: string) => {
    const query = { namespace: namespace.name, labelSelector: selectorOf(id) }
    const networking = cluster.config.makeApiClient(k8s.NetworkingV1Api)
    const lists = await Promise.all([
      core.listNamespacedPod(query),
      core.listNamespacedPersistentVolumeClaim(query),
      core.listNamespacedSecret(query),
      networking.listNamespacedNetworkPolicy(query),
    ])
    const sandboxes = isRemade ? await listSandboxNames(cluster, query) : []
    return [...lists.flatMap(({ items }) => items.map(({ metadata }) => metadata?.name ?? '')), ...sandboxes]
  }
  return {
    backend,
    cluster,
    namespace,
    ledgerId,
    pauseRounds: 2,
    pod: async (id) => {
      const query = { namespace: namespace.name, labelSelector: selectorOf(id) }
      return (await core.listNamespacedPod(query)).items[0]
    },
    reopen: async () => open(ledgerId),
    openForOtherLedger: async () => open(randomBytes(16).toString('hex')),
    createConfig: (overrides = {}) => ({ ...plainConfig(), ...overrides }),
    node: (script) => ['node', '-e', script, '--'],
    kill: async (id) => {
      await runInside(backend, id, `process.kill(process.pid, 'SIGKILL')`).catch(() => undefined)
    },
    listRemains: list,
    close: async () => namespace[Symbol.asyncDispose](),
  }
}

function plainConfig(): SandboxConfig {
  return {
    id: `s-${randomBytes(6).toString('hex')}`,
    image: null,
    command: [],
    env: { SLIPWAY_SESSION_API_KEY: randomBytes(16).toString('hex') },
    workingDir: '',
    resources: { diskBytes: 2 ** 28 },
    network: 'private',
    kubernetes: { image_pull_policy: 'IfNotPresent' },
  }
}

/** The rules of the Role that the chart installs. */
async function readRules(): Promise<k8s.V1PolicyRule[]> {
  const files = ['rules.json', 'agent-sandbox-rules.json'].map(
    (name) => new URL(`../../../../../../deploy/helm/slipway/files/${name}`, import.meta.url),
  )
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')))
  return texts.flatMap((text) => JSON.parse(text).rules)
}

/** The node of `.ci/cluster`. */
const nodeName = 'slipway-node'

/** Takes the only node out of scheduling, as the first step of a drain, until the disposal. */
export async function cordonNode({ core }: TestCluster): Promise<AsyncDisposable> {
  const setUnschedulable = async (isUnschedulable: boolean) => {
    const options = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch)
    await core.patchNode({ name: nodeName, body: { spec: { unschedulable: isUnschedulable } } }, options)
  }
  await setUnschedulable(true)
  return { [Symbol.asyncDispose]: () => setUnschedulable(false) }
}

/**
 * A second API server of the cluster that `.ci/cluster` has started, whose restarts disturb no other test.
 * There can be one at a time.
 */
export interface SpareApiServer extends AsyncDisposable {
  readonly url: string
  /** `meanwhile` runs while it is away. */
  restart(meanwhile?: () => Promise<void>): Promise<void>
}

export async function openSpareApiServer(): Promise<SpareApiServer> {
  const script = new URL('../../../../../../.ci/cluster', import.meta.url).pathname
  const run = async (verb: string) =>
    (await promisify(execFile)(script, [verb], { timeout: 180_000 })).stdout.trim()
  const stop = async () => void (await run('stop-spare-api'))
  const url = await run('start-spare-api')
  return {
    url,
    restart: async (meanwhile) => {
      await stop()
      await meanwhile?.()
      await run('start-spare-api')
    },
    [Symbol.asyncDispose]: stop,
  }
}
