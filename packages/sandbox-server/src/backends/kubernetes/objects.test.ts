import { sandboxSpec } from '@slipway/protocol'
import { expect, test } from 'vitest'
import type { SandboxConfig } from '../backend.ts'
import { networkPolicyOf, podOf, secretOf, validateConfig, volumeOf } from './objects.ts'

const owner = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name: 'v', uid: 'u' }
const context = {
  ledgerId: 'f'.repeat(32),
  defaultImage: 'agent',
  controlNamespace: 'control',
  controlAddress: undefined,
}

const configOf = (overrides: Partial<SandboxConfig> = {}): SandboxConfig => ({
  ...{ id: 's-1', image: null, command: [], env: {}, workingDir: '', resources: {}, network: 'private' },
  ...overrides,
})

test('the settings of a spec are those of the Pod and its volume', () => {
  const { kubernetes, resources } = sandboxSpec.parse({
    id: 'gpu',
    resources: { memory_bytes: 2 ** 24, cpus: 0.25, disk_bytes: 2 ** 23 },
    kubernetes: {
      runtime_class: 'gvisor',
      node_selector: { zone: 'a' },
      tolerations: [{ key: 'gpu', operator: 'Exists', effect: 'NoExecute', toleration_seconds: 5 }],
      image_pull_secrets: ['registry'],
      image_pull_policy: 'Always',
      storage_class: 'fast',
      requests: { cpus: 0.1 },
    },
  })
  const { memory_bytes: memoryBytes = 0, cpus = 0, disk_bytes: diskBytes = 0 } = resources
  const config = configOf({ kubernetes, resources: { memoryBytes, cpus, diskBytes } })
  const { spec } = podOf(config, context, owner)
  expect(spec).toMatchObject({
    runtimeClassName: 'gvisor',
    nodeSelector: { zone: 'a' },
    tolerations: [{ key: 'gpu', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 5 }],
    imagePullSecrets: [{ name: 'registry' }],
  })
  expect(spec?.containers[0]).toMatchObject({
    imagePullPolicy: 'Always',
    resources: { limits: { cpu: '250m', memory: '16777216' }, requests: { cpu: '100m', memory: '16777216' } },
  })
  expect(volumeOf(config, context).spec).toMatchObject({
    storageClassName: 'fast',
    resources: { requests: { storage: '8388608' } },
  })
})

test('an unknown setting of Kubernetes is refused', () => {
  expect(sandboxSpec.safeParse({ id: 'a', kubernetes: { privileged: true } }).success).toBe(false)
})

test('secrets are in the Secret alone, and a command is taken literally', () => {
  const config = configOf({
    env: { KEY: 'sesame', ODD: `a b"c'd$e\nü` },
    command: ['/bin/x', '$(KEY)', '$$(A)'],
  })
  const pod = podOf(config, context, owner)
  expect(JSON.stringify(pod)).not.toContain('sesame')
  // Kubernetes reads `$$` as one dollar sign.
  expect(pod.spec?.containers[0]?.args?.slice(0, 2)).toEqual(['$$(KEY)', '$$$$(A)'])
  const { data } = secretOf(config, context, owner)
  expect(Buffer.from(data?.ODD ?? '', 'base64').toString()).toBe(config.env.ODD)
})

test('a private network reaches the internet and the control plane, not the cluster', () => {
  const { spec } = networkPolicyOf(configOf(), context, owner)
  const control = {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'control' } },
    podSelector: { matchLabels: { 'slipway.dev/component': 'control-plane' } },
  }
  expect(spec?.ingress).toEqual([{ _from: [control] }])
  expect(spec?.egress?.at(-1)).toEqual({ to: [control] })
  const blocks = spec?.egress?.flatMap(({ to = [] }) => to.flatMap(({ ipBlock }) => ipBlock?.except ?? []))
  expect(blocks).toContain('169.254.0.0/16')
  expect(networkPolicyOf(configOf({ network: 'shared' }), context, owner).spec?.egress).toEqual([{}])
})

test('what cannot be a Pod is refused with a reason', () => {
  expect(validateConfig(configOf())).toBeUndefined()
  expect(validateConfig(configOf({ network: 'none' }))).toMatch(/without a network/)
  for (const workingDir of ['../x', '/a/../b', '/a:b', '/a//b']) {
    expect(validateConfig(configOf({ workingDir }))).toMatch(/plain absolute path/)
  }
})
