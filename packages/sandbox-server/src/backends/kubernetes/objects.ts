import type {
  V1Container,
  V1LabelSelector,
  V1NetworkPolicy,
  V1NetworkPolicyEgressRule,
  V1OwnerReference,
  V1PersistentVolumeClaim,
  V1Pod,
  V1ResourceRequirements,
  V1Secret,
} from '@kubernetes/client-node'
import { isWithin } from '@slipway/shared/fs'
import { definedMembers } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { SandboxConfig } from '../backend.ts'
import {
  componentLabel,
  ledgerLabel,
  objectName,
  pausedAnnotation,
  sandboxLabel,
  sandboxLabels,
  workingDirAnnotation,
} from './labels.ts'

/** The ports inside, by their names of the API. */
export const podPorts: Readonly<Record<string, number>> = {
  AGENT_SERVER: 8000,
  WORKER_1: 8011,
  WORKER_2: 8012,
}

export const containerName = 'agent'
/** The user of the files and processes in a sandbox. */
const userId = 10_001
export const workspace = '/workspace'
/** The agent server's own files. */
export const agentData = `${workspace}/.slipway`
const homeDirectory = `${workspace}/.home`
const projectDirectory = `${workspace}/project`
const listenArguments = ['--host', '0.0.0.0', '--port', '8000', '--data', agentData]
const defaultDiskBytes = 10 * 2 ** 30
/** Agent servers write what they have to when they are asked to end. */
export const graceSeconds = 10

export interface ObjectContext {
  readonly ledgerId: string
  /** For specs without an image. */
  readonly defaultImage: string
  /** Namespace of the control plane; undefined when it runs outside of the cluster. */
  readonly controlNamespace: string | undefined
  /** IPv4 address at which sandboxes reach it, if it is one and not a name. */
  readonly controlAddress: string | undefined
}

/** The volume comes first and goes last: it owns the other objects. */
export function volumeOf(config: SandboxConfig, { ledgerId }: ObjectContext): V1PersistentVolumeClaim {
  const { storage_class: storageClassName } = config.kubernetes ?? {}
  return {
    metadata: {
      name: objectName(ledgerId, config.id),
      labels: sandboxLabels(ledgerId, config.id),
      annotations: { [workingDirAnnotation]: workingDirectory(config) },
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: String(config.resources.diskBytes ?? defaultDiskBytes) } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  }
}

/** The whole environment: a Pod's spec is read by more people than a Secret. */
export function secretOf(config: SandboxConfig, context: ObjectContext, owner: V1OwnerReference): V1Secret {
  const entries = Object.entries({ HOME: homeDirectory, ...config.env })
  const data = entries.map(([name, value]) => [name, Buffer.from(value).toString('base64')] as const)
  return { metadata: metadataOf(config, context, owner), type: 'Opaque', data: Object.fromEntries(data) }
}

/** What Pod Security calls restricted, and a read-only root besides the volume and /tmp. */
export function podOf(config: SandboxConfig, context: ObjectContext, owner: V1OwnerReference): V1Pod {
  const { kubernetes = {} } = config
  const name = objectName(context.ledgerId, config.id)
  return {
    metadata: metadataOf(config, context, owner),
    spec: {
      restartPolicy: 'Never',
      hostname: config.id,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      // Its first process reaps the zombies of the agent's tools.
      shareProcessNamespace: true,
      terminationGracePeriodSeconds: graceSeconds,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: userId,
        runAsGroup: userId,
        fsGroup: userId,
        fsGroupChangePolicy: 'OnRootMismatch',
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [containerOf(config, context)],
      volumes: [
        { name: 'workspace', persistentVolumeClaim: { claimName: name } },
        { name: 'tmp', emptyDir: { sizeLimit: '1Gi' } },
      ],
      ...(kubernetes.runtime_class && { runtimeClassName: kubernetes.runtime_class }),
      ...(kubernetes.node_selector && { nodeSelector: kubernetes.node_selector }),
      ...(kubernetes.image_pull_secrets && {
        imagePullSecrets: kubernetes.image_pull_secrets.map((secret) => ({ name: secret })),
      }),
      ...(kubernetes.tolerations && {
        tolerations: kubernetes.tolerations.map(({ toleration_seconds: tolerationSeconds, ...toleration }) =>
          definedMembers({ ...toleration, tolerationSeconds }),
        ),
      }),
    },
  }
}

function containerOf(config: SandboxConfig, context: ObjectContext): V1Container {
  const [program, ...rest] = config.command
  const { image_pull_policy: imagePullPolicy } = config.kubernetes ?? {}
  return {
    name: containerName,
    image: config.image ?? context.defaultImage,
    ...(imagePullPolicy && { imagePullPolicy }),
    ...(program !== undefined && {
      command: [literal(program)],
      args: [...rest.map(literal), ...listenArguments],
    }),
    workingDir: workingDirectory(config),
    envFrom: [{ secretRef: { name: objectName(context.ledgerId, config.id) } }],
    ports: Object.values(podPorts).map((containerPort) => ({ containerPort })),
    resources: resourcesOf(config),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [
      { name: 'workspace', mountPath: workspace },
      // Kubernetes creates these folders for the user of the sandbox.
      { name: 'workspace', mountPath: homeDirectory, subPath: '.home' },
      ...workingMounts(config),
      { name: 'tmp', mountPath: '/tmp' },
    ],
  }
}

/** `$(NAME)` in a command would become the value of a variable. */
const literal = (text: string) => text.replaceAll('$', '$$$$')

function workingMounts(config: SandboxConfig) {
  const mountPath = workingDirectory(config)
  if (mountPath === workspace) return []
  const subPath = isWithin(workspace, mountPath) ? mountPath.slice(workspace.length + 1) : 'project'
  return [{ name: 'workspace', mountPath, subPath }]
}

function resourcesOf({ resources, kubernetes }: SandboxConfig): V1ResourceRequirements {
  const { cpus, memoryBytes } = resources
  const quantities = (cpu: number | undefined, memory: number | undefined) => ({
    ...(cpu !== undefined && { cpu: `${Math.max(1, Math.round(cpu * 1000))}m` }),
    ...(memory !== undefined && { memory: String(memory) }),
  })
  const { requests } = kubernetes ?? {}
  return {
    limits: { ...quantities(cpus, memoryBytes), 'ephemeral-storage': '2Gi' },
    requests: {
      ...quantities(requests?.cpus ?? cpus, requests?.memory_bytes ?? memoryBytes),
      'ephemeral-storage': '64Mi',
    },
  }
}

/** Not to the cluster, its nodes and metadata services. */
const privateRanges = [
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.168.0.0/16',
]

/** Denies all besides the control plane and, for a private network, the internet. */
export function networkPolicyOf(
  config: SandboxConfig,
  context: ObjectContext,
  owner: V1OwnerReference,
): V1NetworkPolicy {
  const { controlNamespace, controlAddress } = context
  const namespaceSelector = (name: string): V1LabelSelector => ({
    matchLabels: { 'kubernetes.io/metadata.name': name },
  })
  const controlPlane =
    controlNamespace === undefined
      ? []
      : [
          {
            namespaceSelector: namespaceSelector(controlNamespace),
            podSelector: { matchLabels: { [componentLabel]: 'control-plane' } },
          },
        ]
  const egress: V1NetworkPolicyEgressRule[] =
    config.network === 'shared'
      ? [{}]
      : [
          { to: [{ ipBlock: { cidr: '0.0.0.0/0', except: privateRanges } }] },
          { to: [{ ipBlock: { cidr: '::/0', except: ['fc00::/7', 'fe80::/10'] } }] },
          {
            to: [{ namespaceSelector: {}, podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } } }],
            ports: [
              { protocol: 'UDP', port: 53 },
              { protocol: 'TCP', port: 53 },
            ],
          },
          ...(controlPlane.length === 0 ? [] : [{ to: controlPlane }]),
          ...(controlAddress === undefined ? [] : [{ to: [{ ipBlock: { cidr: `${controlAddress}/32` } }] }]),
        ]
  return {
    metadata: metadataOf(config, context, owner),
    spec: {
      podSelector: { matchLabels: { [ledgerLabel]: context.ledgerId, [sandboxLabel]: config.id } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: controlPlane.length === 0 ? [] : [{ _from: controlPlane }],
      egress,
    },
  }
}

/** What makes an object vanish together with the volume. */
export function ownerReference(volume: V1PersistentVolumeClaim): V1OwnerReference {
  const { name = '', uid = '' } = volume.metadata ?? {}
  return { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name, uid }
}

export function isPaused(volume: V1PersistentVolumeClaim | undefined): boolean {
  return volume?.metadata?.annotations?.[pausedAnnotation] !== undefined
}

function metadataOf(config: SandboxConfig, { ledgerId }: ObjectContext, owner: V1OwnerReference) {
  return {
    name: objectName(ledgerId, config.id),
    labels: sandboxLabels(ledgerId, config.id),
    ownerReferences: [owner],
  }
}

const workingDirectory = (config: SandboxConfig): string => config.workingDir || projectDirectory

/** Why a sandbox cannot be a Pod; undefined when it can. */
export function validateConfig(config: SandboxConfig): string | undefined {
  if (config.network === 'none') {
    return 'A Pod without a network cannot be reached. Use the network `private`, or the process backend.'
  }
  const workingDir = workingDirectory(config)
  const parts = workingDir.split('/').slice(1)
  const isPlain = workingDir.startsWith('/') && parts.every((part) => !['', '.', '..'].includes(part))
  if (!isPlain || workingDir.includes('\0') || workingDir.includes(':') || workingDir.length > 200) {
    return `The working directory is not a plain absolute path of at most 200 characters: ${firstChars(workingDir, 200)}`
  }
  const odd = Object.keys(config.env).find((name) => !/^[-._a-zA-Z0-9]{1,253}$/.test(name))
  return odd === undefined
    ? undefined
    : `The name of a variable is not one of Kubernetes: ${firstChars(odd, 200)}`
}
