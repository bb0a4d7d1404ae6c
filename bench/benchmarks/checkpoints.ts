import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { BenchContext } from '../support/fixtures.ts'
import { atMost, information, type ResultRow } from '../support/result-table.ts'

const program = fileURLToPath(
  new URL('../../packages/agent/src/checkpoints/restore.bench.ts', import.meta.url),
)

/** A step that changed 100 of 100,000 files is restored within a second. */
export async function checkpoints({ isQuick }: BenchContext): Promise<ResultRow[]> {
  const files = isQuick ? 1_000 : 100_000
  const { stdout } = await promisify(execFile)(process.execPath, [program, String(files)])
  const { save, restore } = JSON.parse(stdout) as Record<'save' | 'restore', number>
  return [
    atMost(`restore of a step, ${files} files`, 'ms', restore, 1_000),
    information(`checkpoint of a step, ${files} files`, 'ms', save),
  ]
}
