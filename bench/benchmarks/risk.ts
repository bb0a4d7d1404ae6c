import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { atMost, Floor, type ResultRow } from '../support/result-table.ts'

const program = fileURLToPath(new URL('../../packages/agent/src/shell/risk.bench.ts', import.meta.url))

/**
 * CPU time of the rating of a command of up to 100 kB by rules, whatever it looks like: at most 3.5 times that
 * of a bare pass that finds the words of a text of 32 kB.
 */
export async function risk(): Promise<ResultRow[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [program])
  const shapes = JSON.parse(stdout) as Record<string, { readonly ms: number; readonly floorMs: number }>
  return Object.entries(shapes)
    .sort(([, a], [, b]) => b.ms - a.ms)
    .map(([name, { ms, floorMs }]) => {
      const floor = Floor.of('a bare pass over 32 kB that finds its words', [floorMs])
      return atMost(`risk of a command: ${name}`, 'ms', ms, floor, 3.5)
    })
}
