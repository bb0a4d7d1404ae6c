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
 * else: no Secret, no NetworkPolicy, and a volume claim only where it is asked for. They cannot be paused.
 */
export function startBarePods(
  { core }: TestCluster,
  namespace: string,
  /** With a volume claim each, as sandboxes have, instead of an empty folder for the workspace. */
  hasClaim = false,
): StartBareServer {
  return async (env) => {
    const name = `bare-${randomBytes(5).toString('hex')}`
    const pod = { namespace, name }
    if (hasClaim) await core.createNamespacedPersistentVolumeClaim({ namespace, body: claim(name) })
    await core.createNamespacedPod({ namespace, body: barePod(name, env, hasClaim) })
    const remove = async () => {
      await core.deleteNamespacedPod({ ...pod, gracePeriodSeconds: 0 })
      if (hasClaim) await core.deleteNamespacedPersistentVolumeClaim(pod)
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

function claim(name: string) {
  return {
    metadata: { name },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '256Mi' } } },
  }
}

function barePod(name: string, env: Readonly<Record<string, string>>, hasClaim: boolean) {
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
      volumes: folders.map((folder) =>
        hasClaim && folder.name === 'workspace'
          ? { name: folder.name, persistentVolumeClaim: { claimName: name } }
          : { name: folder.name, emptyDir: {} },
      ),
    },
  }
}
