import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { backendContract, observe, probeScript, waitAlive, waitForValue } from '../backend.contract.ts'
import { copyFilesContract } from '../copy-files.contract.ts'
import { isRealController, startSandboxController } from './testing/sandbox-controller.ts'
import { openKubernetes, skipText, type TestCluster, testCluster } from './testing/test-cluster.ts'

const found = testCluster()
if (found === undefined) test.skip(`agent-sandbox: ${skipText}`, () => {})
else defineTests(found)

function defineTests(cluster: TestCluster): void {
  const limit = { timeout: 240_000 }
  const open = () => openKubernetes(cluster, { name: 'agent-sandbox' })
  let controller: AsyncDisposable | undefined
  beforeAll(async () => {
    controller = await startSandboxController(cluster)
    console.info(
      `agent-sandbox: the controller is ${isRealController ? 'the real one' : 'that of the tests'}`,
    )
  })
  afterAll(() => controller?.[Symbol.asyncDispose]())

  test(
    'a Pod that another program deletes is made again, and the sandbox is never stopped',
    limit,
    async () => {
      const at = await open()
      onTestFinished(() => at.close())
      const config = at.createConfig({ command: at.node(probeScript) })
      await at.backend.start(config)
      const before = await waitAlive(at.backend, config.id)
      const states = new Set<string>()
      await cluster.core.deleteNamespacedPod({
        namespace: at.namespace.name,
        name: (await at.pod(config.id))?.metadata?.name ?? '',
        gracePeriodSeconds: 1,
      })
      await waitForValue(async () => {
        const { state, epoch } = await observe(at.backend, config.id)
        states.add(state)
        return state === 'running' && epoch !== before.epoch ? true : undefined
      }, 'its second Pod')
      expect(states).not.toContain('stopped')
      await waitAlive(at.backend, config.id)
    },
  )

  test('a Pod that the namespace does not admit says why', limit, async () => {
    const at = await open()
    onTestFinished(() => at.close())
    const config = at.createConfig()
    await cluster.core.createNamespacedResourceQuota({
      namespace: at.namespace.name,
      body: { metadata: { name: 'none' }, spec: { hard: { pods: '0' } } },
    })
    await waitForValue(async () => {
      const quota = await cluster.core.readNamespacedResourceQuota({
        namespace: at.namespace.name,
        name: 'none',
      })
      return quota.status?.hard === undefined ? undefined : true
    }, 'the quota')
    await at.backend.start(config)
    const { state, detail } = await observe(at.backend, config.id)
    expect([state, detail]).toEqual([
      'broken',
      expect.stringMatching(/^The quota of the namespace is used up/),
    ])
    await at.backend.remove(config.id)
    expect(await at.listRemains(config.id)).toEqual([])
  })

  backendContract('agent-sandbox', open)
  copyFilesContract('agent-sandbox', open)
}
