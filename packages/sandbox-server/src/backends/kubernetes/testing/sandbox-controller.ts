import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import * as k8s from '@kubernetes/client-node'
import type { TestCluster } from './test-cluster.ts'

/*
 * The custom resource of kubernetes-sigs/agent-sandbox and something that makes its Pods.
 *
 * With SLIPWAY_TEST_AGENT_SANDBOX (a folder with `controller` and `sandboxes.yaml`, which `.ci/cluster
 * build_agent_sandbox <checkout>` makes), both are the published ones. Without it they are of these tests:
 * the module is not on the Go module proxy, so the gate cannot build it. Ours has what its source does for a
 * Sandbox of our shape: a Pod of its name while it is Running, none while it is Suspended, and the condition
 * Ready with the reason why not.
 */

const group = 'agents.x-k8s.io'
const version = 'v1beta1'
const plural = 'sandboxes'
const resource = { group, version, plural }
const pollMs = 50

interface Sandbox extends k8s.KubernetesObject {
  readonly spec: {
    readonly operatingMode: string
    readonly podTemplate: { readonly metadata?: k8s.V1ObjectMeta; readonly spec: k8s.V1PodSpec }
  }
  readonly status?: {
    readonly conditions?: readonly { readonly message?: string; readonly reason?: string }[]
  }
}

type Query = { readonly namespace: string; readonly labelSelector: string }

export async function listSandboxNames({ config }: TestCluster, query: Query): Promise<string[]> {
  const custom = config.makeApiClient(k8s.CustomObjectsApi)
  const { items } = await custom.listNamespacedCustomObject({ ...resource, ...query })
  return items.map(({ metadata }: k8s.KubernetesObject) => metadata?.name ?? '')
}

/** Whether the real controller runs. */
export const isRealController = process.env.SLIPWAY_TEST_AGENT_SANDBOX !== undefined

/** The custom resource stays; the controller ends with the disposal. */
export async function startSandboxController(cluster: TestCluster): Promise<AsyncDisposable> {
  const folder = process.env.SLIPWAY_TEST_AGENT_SANDBOX
  await installDefinition(cluster, folder)
  return folder === undefined ? startOwn(cluster) : await startReal(cluster, `${folder}/controller`)
}

async function installDefinition({ config }: TestCluster, folder: string | undefined): Promise<void> {
  const extensions = config.makeApiClient(k8s.ApiextensionsV1Api)
  const body =
    folder === undefined
      ? ownDefinition
      : k8s.loadYaml<k8s.V1CustomResourceDefinition>(await readFile(`${folder}/sandboxes.yaml`, 'utf8'))
  // The versions are converted by a webhook of the controller, which runs outside of the cluster here.
  const definition = { ...body, spec: { ...body.spec, conversion: { strategy: 'None' } } }
  await extensions.createCustomResourceDefinition({ body: definition }).catch((error: unknown) => {
    if (!(error instanceof k8s.ApiException && error.code === 409)) throw error
  })
  const custom = config.makeApiClient(k8s.CustomObjectsApi)
  for (const deadline = Date.now() + 30_000; Date.now() < deadline; await sleep(pollMs)) {
    const isServed = await custom
      .listCustomObjectForAllNamespaces({ ...resource, resourcePlural: plural })
      .then(
        () => true,
        () => false,
      )
    if (isServed) return
  }
  throw new Error('The API server does not serve the custom resource')
}

const anything = { type: 'object', x_kubernetes_preserve_unknown_fields: true }

const ownDefinition: k8s.V1CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: {
    name: `${plural}.${group}`,
    annotations: { 'api-approved.kubernetes.io': 'unapproved, for tests' },
  },
  spec: {
    group,
    names: { kind: 'Sandbox', listKind: 'SandboxList', plural, singular: 'sandbox' },
    scope: 'Namespaced',
    versions: [
      {
        name: version,
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            required: ['spec'],
            properties: {
              spec: {
                type: 'object',
                required: ['podTemplate'],
                properties: {
                  operatingMode: { type: 'string', _enum: ['Running', 'Suspended'], _default: 'Running' },
                  service: { type: 'boolean' },
                  podTemplate: {
                    type: 'object',
                    required: ['spec'],
                    properties: { metadata: anything, spec: anything },
                  },
                },
              },
              status: anything,
            },
          },
        },
      },
    ],
  },
}

async function startReal({ kubeconfig }: TestCluster, program: string): Promise<AsyncDisposable> {
  const options = ['--enable-webhook=false', '--leader-elect=false', '--metrics-bind-address=0']
  const child = spawn(program, [`--kubeconfig=${kubeconfig}`, ...options, '--health-probe-bind-address=0'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let output = ''
  child.stderr.on('data', (data: Buffer) => (output = `${output}${data.toString()}`.slice(-20_000)))
  const ended = once(child, 'exit')
  const early = await Promise.race([ended.then(() => true), sleep(500, false)])
  if (early) throw new Error(`The controller ended:\n${output}`)
  return {
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGTERM')
      await ended
    },
  }
}

function startOwn(cluster: TestCluster): AsyncDisposable {
  const stop = new AbortController()
  const custom = cluster.config.makeApiClient(k8s.CustomObjectsApi)
  const round = async () => {
    const { items } = await custom.listCustomObjectForAllNamespaces({ ...resource, resourcePlural: plural })
    const { items: pods } = await cluster.core.listPodForAllNamespaces({
      labelSelector: 'slipway.dev/ledger',
    })
    await Promise.all(items.map((sandbox: Sandbox) => reconcile(cluster, custom, sandbox, pods)))
  }
  const run = async () => {
    while (!stop.signal.aborted) {
      await round().catch((error: unknown) => console.warn('the controller of the tests', error))
      await sleep(pollMs, undefined, { signal: stop.signal }).catch(() => undefined)
    }
  }
  const running = run()
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      await running
    },
  }
}

async function reconcile(
  { core }: TestCluster,
  custom: k8s.CustomObjectsApi,
  { metadata, spec, status }: Sandbox,
  pods: readonly k8s.V1Pod[],
): Promise<void> {
  const { name = '', namespace = '', uid = '', generation, deletionTimestamp } = metadata ?? {}
  if (deletionTimestamp !== undefined) return
  const owner = { apiVersion: `${group}/${version}`, kind: 'Sandbox', name, uid, controller: true }
  const pod = pods.find((each) => each.metadata?.ownerReferences?.some((one) => one.uid === uid))
  const isWanted = spec.operatingMode === 'Running'
  let reason = isWanted ? 'DependenciesNotReady' : 'SandboxSuspended'
  let message = pod === undefined ? 'Pod does not exist' : `Pod exists with phase: ${pod.status?.phase}`
  const failed = (error: unknown) => {
    if (error instanceof k8s.ApiException && error.code === 404) return
    reason = 'ReconcilerError'
    message = `Error seen: ${error instanceof k8s.ApiException ? JSON.parse(error.body).message : String(error)}`
  }
  if (isWanted && pod === undefined) {
    const { labels = {} } = spec.podTemplate.metadata ?? {}
    const body = { metadata: { name, labels, ownerReferences: [owner] }, spec: spec.podTemplate.spec }
    await core.createNamespacedPod({ namespace, body }).catch(failed)
  } else if (!isWanted && pod !== undefined && pod.metadata?.deletionTimestamp === undefined)
    await core.deleteNamespacedPod({ namespace, name }).catch(failed)
  const [before] = status?.conditions ?? []
  if (before?.message === message && before.reason === reason) return
  const condition = {
    ...{ type: 'Ready', status: 'False', reason, message, observedGeneration: generation },
    lastTransitionTime: new Date().toISOString(),
  }
  await custom
    .patchNamespacedCustomObjectStatus(
      { ...resource, namespace, name, body: { status: { conditions: [condition] } } },
      k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch),
    )
    .catch(() => undefined)
}
