import type { ContainerStats } from 'dockerode'
import type { SandboxUse } from '../backend.ts'

/** As `docker stats` counts: memory without the page cache. Undefined when nothing runs in the container. */
export function toSandboxUse({
  memory_stats,
  cpu_stats,
  pids_stats,
}: ContainerStats): SandboxUse | undefined {
  const processes = pids_stats?.current ?? 0
  if (processes === 0) return undefined
  const cached = memory_stats.stats?.inactive_file ?? memory_stats.stats?.total_inactive_file ?? 0
  return {
    memoryBytes: Math.max(0, (memory_stats.usage ?? 0) - cached),
    cpuSeconds: cpu_stats.cpu_usage.total_usage / 1e9,
    processes,
  }
}
