import type { SandboxSpec } from '@slipway/protocol'

const limits = {
  memory_bytes: 'memory (SLIPWAY_SANDBOX_MEMORY_MB)',
  max_processes: 'processes (SLIPWAY_SANDBOX_PROCESSES)',
  cpus: 'CPUs (SLIPWAY_SANDBOX_CPUS)',
  disk_bytes: 'disk (SLIPWAY_SANDBOX_DISK_MB)',
} as const

/** Notes for the operator about specs without a limit: one sandbox could take all of it from others. */
export function unlimitedNotes(
  specs: readonly (Pick<SandboxSpec, 'id' | 'resources'> & { readonly backend: string })[],
  maxDiskBytes: number,
): string[] {
  return specs.flatMap(({ id, resources, backend }) => {
    const isDiskWatched = maxDiskBytes > 0 && (backend === 'process' || backend === 'docker')
    const missing = Object.entries(limits).filter(
      ([name]) => Reflect.get(resources, name) === undefined && !(name === 'disk_bytes' && isDiskWatched),
    )
    const names = missing.map(([, name]) => name).join(', ')
    return names === '' ? [] : [`${id}: no limit of ${names}: one sandbox may take all that there is.`]
  })
}
