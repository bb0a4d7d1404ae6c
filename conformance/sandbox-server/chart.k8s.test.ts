import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { AppsV1Api, RbacAuthorizationV1Api } from '@kubernetes/client-node'
import { expect, onTestFinished, test } from 'vitest'
import {
  agentImage,
  openNamespace,
  skipText,
  type TestCluster,
  testCluster,
} from '../../packages/sandbox-server/src/backends/kubernetes/testing/test-cluster.ts'
import { scriptedModel } from '../support/agent-driver.ts'
import { waitFor } from '../support/sandbox-server/user.ts'

/** The chart, installed with the real Helm; chart-values.k8s renders it. */

const chart = resolve(import.meta.dirname, '../../deploy/helm/slipway')
const program = process.env.SLIPWAY_TEST_HELM
const cluster = testCluster()
/** `.ci/cluster` has made it of the PostgreSQL of this machine. */
const postgresImage = 'slipway.invalid/postgres:1'

if (!program || cluster === undefined) test.skip(`chart: ${skipText}`, () => {})
else {
  const helm = async (...args: readonly string[]) =>
    (await promisify(execFile)(program, [...args], { maxBuffer: 2 ** 24, timeout: 200_000 })).stdout
  defineInstallTest(cluster, helm)
  defineUpgradeTest(cluster, helm)
}

function defineInstallTest(
  { core, config, kubeconfig }: TestCluster,
  helm: (...args: readonly string[]) => Promise<string>,
): void {
  test('the chart installs a control plane that runs agents, upgrades, and leaves what it says', {
    timeout: 600_000,
  }, async () => {
    const namespace = await openNamespace({ core, config, kubeconfig, host: '' })
    onTestFinished(() => namespace[Symbol.asyncDispose](), 60_000)
    const target = ['slipway', chart, '--kubeconfig', kubeconfig, '--namespace', namespace.name]
    const values = [
      ...['image.repository=docker.io/library/slipway-sandbox-server', 'image.tag=latest'],
      ...[
        'persistence.size=256Mi',
        'settings.SLIPWAY_SANDBOX_MEMORY_MB=1024',
        'settings.SLIPWAY_SANDBOX_DISK_MB=256',
      ],
      ...[`sandboxSpecs[0].image=${agentImage}`, 'sandboxSpecs[0].id=pod'],
      'sandboxSpecs[0].kubernetes.image_pull_policy=IfNotPresent',
    ].flatMap((one) => ['--set', one])
    await removeServiceAccount({ core, config }, namespace.name)
    const notes = await helm('install', ...target, ...values)
    expect(notes).toContain('kubectl -n')
    const rolledOut = (generation: number) =>
      waitFor('the control plane is ready', async () => {
        const apps = config.makeApiClient(AppsV1Api)
        const { status } = await apps.readNamespacedDeployment({ namespace: namespace.name, name: 'slipway' })
        const isCurrent = (status?.observedGeneration ?? 0) >= generation
        return isCurrent && status?.readyReplicas === 1 && status.updatedReplicas === 1 ? true : undefined
      })
    await rolledOut(1)
    const service = await core.readNamespacedService({ namespace: namespace.name, name: 'slipway' })
    const url = `http://${service.spec?.clusterIP}:3000`
    const { data } = await core.readNamespacedSecret({ namespace: namespace.name, name: 'slipway-keys' })
    const key = Buffer.from(data?.SLIPWAY_API_KEY ?? '', 'base64').toString()
    const call = async <T>(method: string, path: string, body?: object): Promise<T> => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const response = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) ?? null })
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
      return (await response.json()) as T // what the wire says
    }

    // The cluster of the tests has no DNS, so the address is a setting, changed by an upgrade.
    await helm('upgrade', ...target, ...values, '--set', `settings.SLIPWAY_INTERNAL_URL=${url}`)
    await rolledOut(2)
    const again = await core.readNamespacedSecret({ namespace: namespace.name, name: 'slipway-keys' })
    expect(again.data).toEqual(data)

    const llm = scriptedModel([{ text: 'An answer from a Pod.' }])
    await waitFor('it answers', () =>
      call('POST', '/api/v1/settings', { agent_settings_diff: { llm } }).catch(() => undefined),
    )
    const started = await call<{ app_conversation_id: string | null; status: string; sandbox_id: string }[]>(
      ...(['POST', '/api/v1/app-conversations/stream-start'] as const),
      { initial_message: { content: 'Begin.' } },
    )
    expect(started.at(-1)).toMatchObject({ status: 'READY' })
    await waitFor('its answer arrives', async () => {
      const id = started.at(-1)?.app_conversation_id
      const page = await call('GET', `/api/v1/conversation/${id}/events/search?kind__eq=MessageEvent`)
      return JSON.stringify(page).includes('An answer from a Pod.') ? true : undefined
    })
    const pods = async () => (await core.listNamespacedPod({ namespace: namespace.name })).items
    await call('DELETE', `/api/v1/sandboxes/${started.at(-1)?.sandbox_id}`)
    await waitFor('the sandbox is gone', async () => {
      const ofSandboxes = { namespace: namespace.name, labelSelector: 'slipway.dev/sandbox' }
      const lists = await Promise.all([
        core.listNamespacedPod(ofSandboxes),
        core.listNamespacedSecret(ofSandboxes),
        core.listNamespacedPersistentVolumeClaim(ofSandboxes),
      ])
      return lists.every(({ items }) => items.length === 0) ? true : undefined
    })

    await helm('uninstall', 'slipway', '--kubeconfig', kubeconfig, '--namespace', namespace.name)
    await waitFor('the control plane is gone', async () => ((await pods()).length === 0 ? true : undefined))
    const query = { namespace: namespace.name }
    const left = await Promise.all([
      core.listNamespacedSecret(query),
      core.listNamespacedPersistentVolumeClaim(query),
      core.listNamespacedService(query),
      core.listNamespacedServiceAccount(query),
    ])
    const names = left.map(({ items }) => items.map(({ metadata }) => metadata?.name))
    expect(names).toEqual([['slipway-keys'], ['slipway-data'], [], ['default']])
  })
}

/** The one of the namespace belongs to other tests; the chart makes its own. */
async function removeServiceAccount(
  { core, config }: Pick<TestCluster, 'core' | 'config'>,
  namespace: string,
): Promise<void> {
  const rbac = config.makeApiClient(RbacAuthorizationV1Api)
  await core.deleteNamespacedServiceAccount({ namespace, name: 'slipway' })
  await rbac.deleteNamespacedRoleBinding({ namespace, name: 'slipway' })
  await rbac.deleteNamespacedRole({ namespace, name: 'slipway' })
}

function defineUpgradeTest(
  { core, config, kubeconfig, host }: TestCluster,
  helm: (...args: readonly string[]) => Promise<string>,
): void {
  test('two replicas on the PostgreSQL of the chart are upgraded without a lost request', {
    timeout: 600_000,
  }, async () => {
    const namespace = await openNamespace({ core, config, kubeconfig, host })
    onTestFinished(() => namespace[Symbol.asyncDispose](), 60_000)
    await removeServiceAccount({ core, config }, namespace.name)
    const target = ['slipway', chart, '--kubeconfig', kubeconfig, '--namespace', namespace.name]
    const values = [
      ...['image.repository=docker.io/library/slipway-sandbox-server', 'image.tag=latest', 'replicas=2'],
      ...['postgresql.enabled=true', `postgresql.image=${postgresImage}`, 'postgresql.storage=256Mi'],
      ...[`sandboxSpecs[0].image=${agentImage}`, 'sandboxSpecs[0].id=pod'],
    ].flatMap((one) => ['--set', one])
    await helm('install', ...target, ...values)
    const apps = config.makeApiClient(AppsV1Api)
    const rolledOut = (generation: number) =>
      waitFor(
        'all replicas are ready',
        async () => {
          const { status } = await apps.readNamespacedDeployment({
            namespace: namespace.name,
            name: 'slipway',
          })
          const { observedGeneration = 0, readyReplicas, updatedReplicas, replicas } = status ?? {}
          const isCurrent = observedGeneration >= generation && replicas === 2
          return isCurrent && readyReplicas === 2 && updatedReplicas === 2 ? true : undefined
        },
        300_000,
      )
    await rolledOut(1)
    const service = await core.readNamespacedService({ namespace: namespace.name, name: 'slipway' })
    const url = `http://${service.spec?.clusterIP}:3000`
    const { data } = await core.readNamespacedSecret({ namespace: namespace.name, name: 'slipway-keys' })
    const key = Buffer.from(data?.SLIPWAY_API_KEY ?? '', 'base64').toString()
    let isOver = false
    const statuses: Record<string, number> = {}
    const use = async (user: number) => {
      for (let n = 0; !isOver; n++) {
        const headers = {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          connection: 'close',
        }
        const isWrite = n % 2 === 0
        const llm = { model: `user-${user}/model-${n}` }
        const body = JSON.stringify({ agent_settings_diff: { llm } })
        const path = isWrite ? '/api/v1/settings' : '/api/v1/sandboxes/search'
        const init = isWrite ? { method: 'POST', headers, body } : { headers }
        const outcome = await fetch(url + path, init).then(
          async (response) => `${response.status} ${(await response.text()).slice(0, response.ok ? 0 : 300)}`,
          (error: unknown) => String((error as Error).cause ?? error),
        )
        statuses[outcome.trim()] = (statuses[outcome.trim()] ?? 0) + 1
        await sleep(25)
      }
    }
    const users = [0, 1, 2, 3].map(use)
    try {
      await helm('upgrade', ...target, ...values, '--set', 'settings.SLIPWAY_MAX_SANDBOXES=7')
      await rolledOut(2)
      // Those that were replaced end after they have left the Service.
      await waitFor('the old ones are gone', async () => {
        const labelSelector = 'app.kubernetes.io/name=slipway'
        const { items } = await core.listNamespacedPod({ namespace: namespace.name, labelSelector })
        return items.length === 2 ? true : undefined
      })
    } finally {
      isOver = true
    }
    await Promise.all(users)
    console.info(`chart: requests during the upgrade: ${JSON.stringify(statuses)}`)
    expect(Object.keys(statuses).filter((status) => !/^20[0-9]$/.test(status))).toEqual([])

    await helm('uninstall', 'slipway', '--kubeconfig', kubeconfig, '--namespace', namespace.name)
    const query = { namespace: namespace.name }
    await waitFor('all Pods are gone', async () =>
      (await core.listNamespacedPod(query)).items.length === 0 ? true : undefined,
    )
    const left = await Promise.all([
      core.listNamespacedSecret(query),
      core.listNamespacedPersistentVolumeClaim(query),
      core.listNamespacedService(query),
    ])
    expect(left.map(({ items }) => items.map(({ metadata }) => metadata?.name))).toEqual([
      ['slipway-database', 'slipway-keys'],
      ['data-slipway-postgresql-0'],
      [],
    ])
  })
}
