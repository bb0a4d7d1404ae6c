import { release } from 'node:os'
import type { Isolation, Resources } from '../backend.ts'
import type { EngineCapabilities } from './container-options.ts'
import type { Engine } from './engine.ts'

/** What an engine says of itself, as far as it matters here. */
export interface EngineInfo {
  readonly capabilities: EngineCapabilities
  readonly hasSeccomp: boolean
  /** It runs as root on this machine, so that the gateway of its networks is this machine. */
  readonly isLocal: boolean
  readonly isPodman: boolean
}

interface InfoResponse {
  readonly MemoryLimit?: boolean
  readonly PidsLimit?: boolean
  readonly CpuCfsQuota?: boolean
  readonly NCPU?: number
  readonly SecurityOptions?: readonly string[] | null
  readonly KernelVersion?: string
}

interface VersionResponse {
  readonly Components?: readonly { readonly Name: string }[] | null
}

/** Asked anew each time: the engine behind a socket may be another one tomorrow. */
export async function fetchEngineInfo(engine: Engine): Promise<EngineInfo> {
  const [info, version] = await Promise.all([
    engine.callOrThrow<InfoResponse>({ method: 'GET', path: '/info' }),
    engine.callOrThrow<VersionResponse>({ method: 'GET', path: '/version' }),
  ])
  const security = info.SecurityOptions ?? []
  const isRootless = security.some((option) => option.startsWith('name=rootless'))
  return {
    capabilities: {
      memory: info.MemoryLimit === true,
      processes: info.PidsLimit === true,
      cpus: info.CpuCfsQuota === true,
      cores: info.NCPU || 1,
      isRootless,
    },
    hasSeccomp: security.some((option) => option.startsWith('name=seccomp')),
    // One in a virtual machine has a kernel of its own.
    isLocal: !isRootless && info.KernelVersion === release(),
    isPodman: version.Components?.some(({ Name }) => Name.startsWith('Podman')) === true,
  }
}

/**
 * How a sandbox of a network with this gateway finds this machine: an address; or a word in whose place Docker puts what it takes
 * for it; undefined where that is up to the engine.
 */
export function sandboxHostAddress(engineInfo: EngineInfo, gateway: string | undefined): string | undefined {
  if (engineInfo.isLocal && gateway !== undefined) return gateway
  return engineInfo.isPodman ? undefined : 'host-gateway'
}

/** `isClosed`: sandboxes of one ledger are known not to reach each other. */
export function describeIsolation({ capabilities, hasSeccomp }: EngineInfo, isClosed: boolean): Isolation {
  const enforced: (keyof Resources)[] = [
    ...(capabilities.memory ? (['memoryBytes'] as const) : []),
    ...(capabilities.processes ? (['maxProcesses'] as const) : []),
    ...(capabilities.cpus ? (['cpus'] as const) : []),
    'maxOpenFiles',
  ]
  const notes = [
    'What a sandbox keeps on disk is not limited: container engines limit no volumes.',
    'A sandbox shares the kernel of this machine, and reaches what its network lets it reach.',
  ]
  if (!isClosed)
    notes.push('Sandboxes may reach the ports of each other: only their session keys are in between.')
  if (!capabilities.isRootless)
    notes.push('The container engine runs as root; one without root adds another wall.')
  if (!hasSeccomp) notes.push('The container engine filters no system calls: it runs without seccomp.')
  const unlimited = (['memory', 'processes', 'cpus'] as const).filter((name) => !capabilities[name])
  if (unlimited.length > 0) {
    notes.push(`The container engine cannot limit ${unlimited.join(', ')}: its cgroups are not delegated.`)
  }
  return { kind: 'container', enforced, notes }
}
