import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type { OwnAgentServer } from '../support/agent-fixture.ts'

/** Settings of a server whose memory `liveMegabytes` can ask for: it loads this file before its own. */
export const measuredServerEnv = {
  NODE_OPTIONS: `--expose-gc --import=${pathToFileURL(import.meta.filename).href}`,
}

if (globalThis.gc !== undefined)
  process.on('SIGUSR2', async () => {
    for (let round = 0; round < 3; round++) {
      globalThis.gc?.()
      await sleep(10)
    }
    const { heapUsed, external } = process.memoryUsage()
    process.stderr.write(`live bytes ${heapUsed + external}\n`)
  })

/**
 * What the objects of a server hold, in MB, after a full collection. Resident memory would not tell: it has
 * garbage, and pages that the allocator has not given back.
 */
export async function liveMegabytes(server: OwnAgentServer): Promise<number> {
  const reports = () => [...server.output().matchAll(/^live bytes (\d+)$/gm)]
  const { length } = reports()
  process.kill(server.pid, 'SIGUSR2')
  for (let waited = 0; waited < 30_000; waited += 20) {
    const report = reports()[length]
    if (report !== undefined) return Math.round(Number(report[1]) / 1024 ** 2)
    await sleep(20)
  }
  throw new Error('the server reported no memory')
}
