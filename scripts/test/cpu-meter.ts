import { afterAll } from 'vitest'
import { cpuSeconds } from './cpu-seconds.ts'

declare module 'vitest' {
  interface TaskMeta {
    /** Of the file, with the child processes that it waited for; undefined outside of Linux. */
    cpuSeconds?: number
  }
}

/** Survives between the files that share this process: the CPU time of those before. */
const shared: typeof globalThis & { slipwayCpuSeconds?: number } = globalThis

// biome-ignore lint/correctness/noEmptyPattern: Vitest reads from the pattern which fixtures the hook uses.
afterAll(({}, suite) => {
  const total = cpuSeconds()
  if (total === undefined) return
  suite.file.meta.cpuSeconds = total - (shared.slipwayCpuSeconds ?? 0)
  shared.slipwayCpuSeconds = total
})
