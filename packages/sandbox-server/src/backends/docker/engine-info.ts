import { release } from 'node:os'
import type { Isolation, Resources } from '../backend.ts'
import type { Can } from './container-options.ts'
import type { Engine } from './engine.ts'

/** What an engine says of itself, as far as it matters here. */
export interface Facts {
  readonly can: Can
  readonly hasSeccomp: boolean
  /** It runs as root on this machine, so that the gateway of its networks is this machine. */
  readonly isHere: boolean
  readonly isPodman: boolean
}

interface Info {
  readonly MemoryLimit?: boolean
  readonly PidsLimit?: boolean
  readonly CpuCfsQuota?: boolean
  readonly NCPU?: number
  readonly SecurityOptions?: readonly string[] | null
  readonly KernelVersion?: string
}

interface Version {
  readonly Components?: readonly { readonly Name: string }[] | null
}

/** Asked anew each time: the engine behind a socket may be another one tomorrow. */
export async function factsOf(engine: Engine): Promise<Facts> {
  const [info, version] = await Promise.all([
    engine.must<Info>({ method: 'GET', path: '/info' }),
    engine.must<Version>({ method: 'GET', path: '/version' }),
  ])
  const security = info.SecurityOptions ?? []
  const isRootless = security.some((option) => option.startsWith('name=rootless'))
  return {
    can: {
      memory: info.MemoryLimit === true,
      processes: info.PidsLimit === true,
      cpus: info.CpuCfsQuota === true,
      cores: info.NCPU || 1,
      isRootless,
    },
    hasSeccomp: security.some((option) => option.startsWith('name=seccomp')),
    // One in a virtual machine has a kernel of its own.
    isHere: !isRootless && info.KernelVersion === release(),
    isPodman: version.Components?.some(({ Name }) => Name.startsWith('Podman')) === true,
  }
}

/**
 * How a sandbox of a network with this gateway finds this machine: an address; or a word in whose place Docker puts what it takes
 * for it; undefined where that is up to the engine.
 */
export function hostAddressOf(facts: Facts, gateway: string | undefined): string | undefined {
  if (facts.isHere && gateway !== undefined) return gateway
  return facts.isPodman ? undefined : 'host-gateway'
}

/** `isClosed`: sandboxes of one ledger are known not to reach each other. */
export function isolationOf({ can, hasSeccomp }: Facts, isClosed: boolean): Isolation {
  const enforced: (keyof Resources)[] = [
    ...(can.memory ? (['memoryBytes'] as const) : []),
    ...(can.processes ? (['maxProcesses'] as const) : []),
    ...(can.cpus ? (['cpus'] as const) : []),
    'maxOpenFiles',
  ]
  const notes = [
    'What a sandbox keeps on disk is not limited: container engines limit no volumes.',
    'A sandbox shares the kernel of this machine, and reaches what its network lets it reach.',
  ]
  if (!isClosed)
    notes.push('Sandboxes may reach the ports of each other: only their session keys are in between.')
  if (!can.isRootless) notes.push('The container engine runs as root; one without root adds another wall.')
  if (!hasSeccomp) notes.push('The container engine filters no system calls: it runs without seccomp.')
  const unlimited = (['memory', 'processes', 'cpus'] as const).filter((name) => !can[name])
  if (unlimited.length > 0) {
    notes.push(`The container engine cannot limit ${unlimited.join(', ')}: its cgroups are not delegated.`)
  }
  return { kind: 'container', enforced, notes }
}
