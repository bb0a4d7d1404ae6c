import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { atMost, type ResultRow } from '../support/result-table.ts'

const program = fileURLToPath(new URL('../../packages/agent/src/shell/risk.bench.ts', import.meta.url))

/**
 * The rating of a command of up to 100 kB by rules takes at most 5 ms of CPU time, whatever it looks like.
 */
export async function risk(): Promise<ResultRow[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [program])
  const shapes = Object.entries(JSON.parse(stdout) as Record<string, number>).sort(([, a], [, b]) => b - a)
  return shapes.map(([name, ms]) => atMost(`risk of a command: ${name}`, 'ms', ms, 5))
}
