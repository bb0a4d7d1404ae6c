import { release } from 'node:os'
import type { DockerVersion } from 'dockerode'
import type { Isolation } from '../backend.ts'
import type { Engine } from './engine.ts'

export type EngineInfo = Awaited<ReturnType<typeof fetchEngineInfo>>

interface InfoResponse {
  readonly MemoryLimit?: boolean
  readonly PidsLimit?: boolean
  readonly CpuCfsQuota?: boolean
  readonly NCPU?: number
  readonly SecurityOptions?: readonly string[] | null
  readonly KernelVersion?: string
  readonly DockerRootDir?: string
}

/** Not cached: the engine behind a socket may change. */
export async function fetchEngineInfo(engine: Engine) {
  const [info, version] = await Promise.all([
    engine.callOrThrow<InfoResponse>('GET', '/info'),
    engine.callOrThrow<DockerVersion>('GET', '/version'),
  ])
  const security = info.SecurityOptions ?? []
  const isRootless = security.some((option) => option.startsWith('name=rootless'))
  return {
    /** The limits that it enforces. */
    capabilities: {
      memory: info.MemoryLimit === true,
      processes: info.PidsLimit === true,
      cpus: info.CpuCfsQuota === true,
      cores: info.NCPU || 1,
      /** Without root, limits above those of its user are impossible. */
      isRootless,
    },
    hasSeccomp: security.some((option) => option.startsWith('name=seccomp')),
    /** It runs as root on this machine, not in a virtual one: the gateway of its networks is this machine. */
    isLocal: !isRootless && info.KernelVersion === release(),
    /** Of its volumes. */
    directory: info.DockerRootDir,
    isPodman: version.Components?.some(({ Name }) => Name.startsWith('Podman')) === true,
  }
}

/** The address of this machine for sandboxes, or Docker's word for it; undefined where the engine sets it. */
export function sandboxHostAddress(engineInfo: EngineInfo, gateway: string | undefined): string | undefined {
  if (engineInfo.isLocal && gateway !== undefined) return gateway
  return engineInfo.isPodman ? undefined : 'host-gateway'
}

const limitedResources = { memory: 'memoryBytes', processes: 'maxProcesses', cpus: 'cpus' } as const

/** `isClosed`: sandboxes cannot reach each other. `linkLocalFailure`: why they reach link-local addresses. */
export function describeIsolation(
  { capabilities, hasSeccomp }: EngineInfo,
  isClosed: boolean,
  isDiskMeasured: boolean,
  linkLocalFailure: string | undefined,
): Isolation {
  const limits = ['memory', 'processes', 'cpus'] as const
  const enforced = limits.filter((name) => capabilities[name]).map((name) => limitedResources[name])
  const notes = [
    isDiskMeasured
      ? 'A sandbox that keeps more on disk than its limit is paused, not refused its writes: container engines limit no volumes.'
      : 'What a sandbox keeps on disk is not limited: this server cannot read the volumes of the engine. It can as root, on the machine of the engine.',
    'A sandbox shares the kernel of this machine, and reaches what its network lets it reach.',
  ]
  if (linkLocalFailure !== undefined)
    notes.push(
      `Sandboxes reach link-local addresses, as the metadata service of a cloud (169.254.169.254): ${linkLocalFailure}.`,
    )
  if (!isClosed)
    notes.push('Sandboxes may reach the ports of each other: only their session keys are in between.')
  if (!capabilities.isRootless)
    notes.push('The container engine runs as root; one without root adds another wall.')
  if (!hasSeccomp) notes.push('The container engine filters no system calls: it runs without seccomp.')
  const unlimited = limits.filter((name) => !capabilities[name])
  if (unlimited.length > 0) {
    notes.push(`The container engine cannot limit ${unlimited.join(', ')}: its cgroups are not delegated.`)
  }
  return { kind: 'container', enforced: [...enforced, 'maxOpenFiles'], notes }
}
