import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { BenchContext } from '../support/fixtures.ts'
import { atMost, Floor, information, type ResultRow } from '../support/result-table.ts'

const program = fileURLToPath(
  new URL('../../packages/agent/src/checkpoints/restore.bench.ts', import.meta.url),
)

/**
 * The restore of a step that changed 100 of 100,000 files, beside bare git commands that look at the same tree
 * and make it what it was: at most 1.8 times as long.
 */
export async function checkpoints({ isQuick }: BenchContext): Promise<ResultRow[]> {
  const files = isQuick ? 1_000 : 100_000
  const { stdout } = await promisify(execFile)(process.execPath, [program, String(files)])
  const times = JSON.parse(stdout) as Record<'save' | 'restore' | 'floor', number>
  const floor = Floor.of('`git add --all` and `git read-tree -u` in the same tree', [times.floor])
  return [
    atMost(`restore of a step, ${files} files`, 'ms', times.restore, floor, 1.8),
    information(`checkpoint of a step, ${files} files`, 'ms', times.save, floor),
  ]
}
