import { readFile } from 'node:fs/promises'
import { request } from 'node:https'
import { expect, onTestFinished, test } from 'vitest'
import {
  cordonNode,
  openSpareApiServer,
  skipText,
  type TestCluster,
  testCluster,
} from '../../packages/sandbox-server/src/backends/kubernetes/testing/test-cluster.ts'
import { bashStep, scriptedModel } from '../support/agent-driver.ts'
import { readSandboxRows, runInSandbox } from '../support/sandbox-server/crash-rounds.ts'
import { KubernetesSandboxServer } from '../support/sandbox-server/kubernetes-server.ts'
import {
  expectAgentRestart,
  expectArchive,
  expectFork,
  supervisedSpec,
} from '../support/sandbox-server/lifecycle.ts'
import { type ListPage, waitFor } from '../support/sandbox-server/user.ts'

/** Conversations in Pods of a real cluster, from outside. */

const limit = { timeout: 600_000 }

const found = testCluster()
if (found === undefined) test.skip(`kubernetes: ${skipText}`, () => {})
else defineTests(found)

function defineTests(cluster: TestCluster): void {
  const open = async (env: Readonly<Record<string, string>> = {}, apiServer?: string) => {
    const opened = await KubernetesSandboxServer.open(cluster, env, apiServer)
    onTestFinished(() => opened[Symbol.asyncDispose](), 300_000)
    return opened
  }
  const timed = async <T>(what: string, work: Promise<T>): Promise<T> => {
    const from = performance.now()
    const done = await work
    console.info(`kubernetes: ${what} took ${Math.round(performance.now() - from)} ms`)
    return done
  }
  const answers = Array.from({ length: 9 }, (_, n) => ({ text: `Answer ${n}.` }))

  test(
    'an agent runs tools in a Pod, which is paused, resumed on its files, and deleted',
    limit,
    async () => {
      const at = await open()
      const { user } = at
      await user.setModel(scriptedModel([bashStep('echo kept > kept && echo It has run'), ...answers]))
      const initial_message = { content: 'Begin.' }
      const { id, sandbox_id } = await timed('a start', user.createConversation({ initial_message }))
      await user.waitForMessage(id, 'Answer 0.')
      const printed = `/api/v1/conversation/${id}/events/search?kind__eq=ObservationEvent`
      expect(JSON.stringify((await user.get<ListPage<unknown>>(printed)).items)).toContain('It has run')
      const sandbox = await user.waitForSandbox(sandbox_id, 'RUNNING')
      expect(sandbox.isolation).toMatchObject({ kind: 'container' })
      const { metadata, spec } = await at.pod(sandbox_id)
      expect(JSON.stringify(spec)).not.toContain(String(sandbox.session_api_key))

      await timed('a pause', user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/pause`))
      const paused = await user.waitForSandbox(sandbox_id, 'PAUSED')
      expect(paused.status_detail).toContain('memory do not')
      expect(await at.pods()).toEqual([])
      await at.server.stop('SIGKILL')
      await at.server.start()
      expect((await user.getSandbox(sandbox_id))?.status).toBe('PAUSED')
      await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
      const again = await timed('a resume', user.waitForSandbox(sandbox_id, 'RUNNING'))
      expect(again.session_api_key).toBe(sandbox.session_api_key)
      expect((await at.pod(sandbox_id)).metadata?.uid).not.toBe(metadata?.uid)
      expect(await runInSandbox(again, `cat ${sandbox.working_dir}/kept`)).toBe('kept\n')
      expect(await user.sendMessage(id, 'Do you continue?')).toMatchObject({ status: 200 })
      await user.waitForMessage(id, 'Do you continue?')

      await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${sandbox_id}`)
      await timed('a removal', at.waitUntilGone())
      expect(await user.getConversation(id)).toMatchObject({ sandbox_status: 'MISSING' })
    },
  )

  test('a conversation is forked with its files while it works', limit, async () => {
    await expectFork((await open()).user)
  })

  test('an archived conversation continues in another Pod', limit, async () => {
    await expectArchive((await open()).user)
  })

  test('an agent server that its Pod starts again gets its settings again', limit, async () => {
    const spec = { ...supervisedSpec, kubernetes: { image_pull_policy: 'IfNotPresent' } }
    const at = await open({ SLIPWAY_SANDBOX_SPECS: JSON.stringify([spec]), SLIPWAY_RECONCILE_SECONDS: '2' })
    await expectAgentRestart(at.user)
  })

  test('a Pod that is deleted or evicted, and one whose files are gone, are reported', limit, async () => {
    const at = await open()
    const { user, namespace } = at
    const { id } = await user.startRunningSandbox()
    const resume = async () => {
      await user.requestOrThrow('POST', `/api/v1/sandboxes/${id}/resume`)
      await user.waitForSandbox(id, 'RUNNING')
    }
    const podName = async () => (await at.pod(id)).metadata?.name ?? ''
    await cluster.core.deleteNamespacedPod({ namespace: namespace.name, name: await podName() })
    const deleted = await timed('a deletion by hand, seen', user.waitForSandbox(id, 'ERROR'))
    expect(deleted.status_detail).toContain('deleted by another program')
    await resume()

    const name = await podName()
    await cluster.core.createNamespacedPodEviction({
      ...{ namespace: namespace.name, name },
      body: { metadata: { name, namespace: namespace.name } },
    })
    const evicted = await timed('an eviction, seen', user.waitForSandbox(id, 'ERROR'))
    expect(evicted.status_detail).toContain('node was drained')
    await resume()

    const query = { namespace: namespace.name, name: await podName() }
    await cluster.core.deleteNamespacedPersistentVolumeClaim(query)
    await cluster.core.deleteNamespacedPod(query)
    await timed('a loss of everything, seen', user.waitForSandbox(id, 'MISSING'))
  })

  test('the API server may go away and come back at any time', limit, async () => {
    const apiServer = await openSpareApiServer()
    onTestFinished(() => apiServer[Symbol.asyncDispose](), 60_000)
    const at = await open({}, apiServer.url)
    const { user, namespace } = at
    const { id } = await user.startRunningSandbox()
    const [second] = await Promise.all([user.startRunningSandbox(), apiServer.restart()])
    expect((await user.getSandbox(id))?.status).toBe('RUNNING')
    expect(await runInSandbox(second, 'echo here')).toBe('here\n')
    // Watches continue.
    const name = (await at.pod(id)).metadata?.name ?? ''
    await cluster.core.deleteNamespacedPod({ namespace: namespace.name, name })
    await user.waitForSandbox(id, 'ERROR')
    // What happens while it is away is beyond the versions that it has afterwards: the watch has expired.
    const { metadata } = await cluster.core.listNamespacedPod({ namespace: namespace.name })
    const lost = (await at.pod(second.id)).metadata?.name ?? ''
    await apiServer.restart(async () => {
      await cluster.core.deleteNamespacedPod({ namespace: namespace.name, name: lost, gracePeriodSeconds: 0 })
    })
    const expired = await watchPods(cluster, apiServer.url, namespace.name, metadata?.resourceVersion ?? '')
    expect(JSON.stringify(expired)).toContain('"code":410')
    await timed('a change behind an expired watch, seen', user.waitForSandbox(second.id, 'ERROR'))
    await user.requestOrThrow('POST', `/api/v1/sandboxes/${second.id}/resume`)
    await user.waitForSandbox(second.id, 'RUNNING')
    await Promise.all([apiServer.restart(), user.requestOrThrow('DELETE', `/api/v1/sandboxes/${second.id}`)])
    await waitFor('it is gone', async () => {
      const left = await at.resources()
      return left.some((one) => one.includes(second.id)) ? undefined : true
    })
  })

  test('sandboxes of a drained node say so, wait for a node, and start on their files', limit, async () => {
    const at = await open()
    const { user, namespace } = at
    const sandboxes = [await user.startRunningSandbox(), await user.startRunningSandbox()]
    for (const [n, one] of sandboxes.entries()) await runInSandbox(one, `echo ${n} > ${one.working_dir}/kept`)
    {
      await using _ = await cordonNode(cluster)
      for (const { metadata } of await at.pods())
        await cluster.core.createNamespacedPodEviction({
          ...{ namespace: namespace.name, name: metadata?.name ?? '' },
          body: { metadata: { name: metadata?.name ?? '', namespace: namespace.name } },
        })
      for (const { id } of sandboxes) {
        const drained = await timed('a drain, seen', user.waitForSandbox(id, 'ERROR'))
        expect(drained.status_detail).toContain('node was drained')
        await user.requestOrThrow('POST', `/api/v1/sandboxes/${id}/resume`)
      }
      for (const { id } of sandboxes) {
        const explained = waitFor('it waits for a node', async () => {
          const { status, status_detail } = (await user.getSandbox(id)) ?? {}
          return status_detail?.includes('No node of the cluster takes it') ? status : undefined
        })
        expect(await timed('the reason of the wait', explained)).toBe('STARTING')
      }
    }
    for (const [n, { id }] of sandboxes.entries()) {
      const again = await user.waitForSandbox(id, 'RUNNING')
      expect(await runInSandbox(again, `cat ${again.working_dir}/kept`)).toBe(`${n}\n`)
    }
  })

  test('what cannot start says why while it waits, and starts when the reason is gone', limit, async () => {
    const specs = [
      { id: 'missing', image: '127.0.0.1:1/nobody/nothing:1' },
      { id: 'nowhere', kubernetes: { node_selector: { 'slipway.dev/no-such': 'node' } } },
      { id: 'large', resources: { memory_bytes: 2 ** 45 } },
      { id: 'pod', kubernetes: { image_pull_policy: 'IfNotPresent' } },
    ]
    const at = await open({ SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs) })
    const { user, namespace } = at
    const expectDetail = async (spec: string, text: string, code: string) => {
      const path = `/api/v1/sandboxes?sandbox_spec_id=${spec}`
      const { id } = await user.requestOrThrow<{ id: string }>('POST', path)
      const explained = waitFor(`${spec} is explained`, async () => {
        const { status, status_detail, status_reason } = (await user.getSandbox(id)) ?? {}
        if (!status_detail?.includes(text)) return undefined
        expect(status_reason).toMatchObject({
          code,
          next_command: expect.stringContaining(`kubectl describe pods -l slipway.dev/sandbox=${id}`),
        })
        return status
      })
      return { id, status: await timed(`a reason of ${spec}`, explained) }
    }
    expect((await expectDetail('missing', 'cannot be pulled', 'image_missing')).status).toBe('STARTING')
    const memory = await expectDetail('large', 'Insufficient memory', 'unschedulable')
    await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${memory.id}`)
    expect((await expectDetail('nowhere', 'No node of the cluster takes it', 'unschedulable')).status).toBe(
      'STARTING',
    )
    const quota = { metadata: { name: 'none' }, spec: { hard: { pods: '2' } } }
    await cluster.core.createNamespacedResourceQuota({ namespace: namespace.name, body: quota })
    await waitFor('the quota counts', async () => {
      const { items } = await cluster.core.listNamespacedResourceQuota({ namespace: namespace.name })
      return items[0]?.status?.used?.pods === '2' ? true : undefined
    })
    const { id, status } = await expectDetail('pod', 'quota of the namespace is used up', 'unschedulable')
    expect(status).toBe('ERROR')
    await cluster.core.deleteNamespacedResourceQuota({ namespace: namespace.name, name: 'none' })
    await user.requestOrThrow('POST', `/api/v1/sandboxes/${id}/resume`)
    await user.waitForSandbox(id, 'RUNNING')
  })

  test('a conversation claims a Pod of the warm pool, which gets its identity late', limit, async () => {
    const at = await open({ SLIPWAY_WARM_POOL: '1', SLIPWAY_RECONCILE_SECONDS: '5' })
    const { user } = at
    const [warm] = await waitFor('one is warm', async () => {
      const pods = await at.pods()
      return readSandboxRows(at.server.data)[0]?.status === 'RUNNING' ? pods : undefined
    })
    await user.setModel(scriptedModel(answers))
    const initial_message = { content: 'Begin.' }
    const { id, sandbox_id } = await timed(
      'a start from the pool',
      user.createConversation({ initial_message }),
    )
    expect((await at.pod(sandbox_id)).metadata?.uid).toBe(warm?.metadata?.uid)
    await user.waitForMessage(id, 'Answer 0.')
  })

  test(
    'agents are reached through the API server, and strangers of this control plane are removed',
    limit,
    async () => {
      const at = await open({ SLIPWAY_KUBERNETES_REACH: 'api', SLIPWAY_RECONCILE_SECONDS: '2' })
      const { user, namespace } = at
      const sandbox = await user.startRunningSandbox()
      expect(await runInSandbox(sandbox, 'echo through')).toBe('through\n')
      const size = 3_000_000
      const text = await runInSandbox(sandbox, `head -c ${size} /dev/zero | tr '\\0' a > big && wc -c < big`)
      expect(text.trim()).toBe(String(size))
      const labels = (await at.pod(sandbox.id)).metadata?.labels ?? {}
      await cluster.core.createNamespacedPersistentVolumeClaim({
        namespace: namespace.name,
        body: {
          metadata: { name: 'stranger', labels: { ...labels, 'slipway.dev/sandbox': 'stranger' } },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
        },
      })
      await waitFor('the stranger is removed', async () => {
        const left = await at.resources()
        return left.some((one) => one.includes('stranger')) ? undefined : true
      })
      expect((await user.getSandbox(sandbox.id))?.status).toBe('RUNNING')
    },
  )
}

/** The first event of a watch from a version. */
function watchPods(
  { config }: TestCluster,
  apiServer: string,
  namespace: string,
  version: string,
): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const path = `/api/v1/namespaces/${namespace}/pods?watch=true&resourceVersion=${version}`
  const { token } = config.getCurrentUser() ?? {}
  const { caFile } = config.getCurrentCluster() ?? {}
  readFile(caFile ?? '')
    .then((ca) =>
      request(apiServer + path, { ca, headers: { authorization: `Bearer ${token}` } }, (response) => {
        response.once('data', (chunk: Buffer) => {
          resolve(JSON.parse(chunk.toString().split('\n')[0] ?? ''))
          response.destroy()
        })
      })
        .on('error', reject)
        .end(),
    )
    .catch(reject)
  return promise
}
