import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { must } from '@slipway/protocol'
import {
  agentImage,
  type TestCluster,
} from '../../packages/sandbox-server/src/backends/kubernetes/testing/test-cluster.ts'
import { type StartBareServer, waitUntilReachable } from './bare-agent-servers.ts'

const pollMs = 20
const port = 8000
/** Of the image. */
const userId = 10_001

/**
 * Starts Pods of the agent server's image that a restricted namespace admits, with empty folders and nothing
 * else: no volume claim, no Secret, no NetworkPolicy. They cannot be paused.
 */
export function startBarePods({ core }: TestCluster, namespace: string): StartBareServer {
  return async (env) => {
    const name = `bare-${randomBytes(5).toString('hex')}`
    const pod = { namespace, name }
    await core.createNamespacedPod({ namespace, body: barePod(name, env) })
    const remove = async () => {
      await core.deleteNamespacedPod({ ...pod, gracePeriodSeconds: 0 })
    }
    try {
      let address: string | undefined
      while (address === undefined) {
        await sleep(pollMs)
        address = (await core.readNamespacedPod(pod)).status?.podIP
      }
      const url = `http://${must(address, 'the address of the Pod')}:${port}`
      await waitUntilReachable(url)
      const refuse = () => Promise.reject(new Error('a Pod cannot be paused'))
      return { url, pause: refuse, resume: refuse, [Symbol.asyncDispose]: remove }
    } catch (error) {
      await remove()
      throw error
    }
  }
}

function barePod(name: string, env: Readonly<Record<string, string>>) {
  const folders = ['workspace', 'tmp'].map((folder) => ({ name: folder, mountPath: `/${folder}` }))
  return {
    metadata: { name },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      securityContext: {
        ...{ runAsNonRoot: true, runAsUser: userId, runAsGroup: userId, fsGroup: userId },
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [
        {
          name: 'agent',
          image: agentImage,
          imagePullPolicy: 'IfNotPresent',
          env: Object.entries({ ...env, HOME: '/workspace' }).map(([key, value]) => ({ name: key, value })),
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
          volumeMounts: folders,
        },
      ],
      volumes: folders.map((folder) => ({ name: folder.name, emptyDir: {} })),
    },
  }
}
